"""The site in a real browser, opened from the disk as people open it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from boards import HOSTILE
from playwright.sync_api import Browser, Page, expect, sync_playwright

from palate.leaderboard import Site

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
GUARD = 300_000  # milliseconds after which a page hangs, however busy the machine is
NAMES = "table.board tbody th a"
expect.set_options(timeout=GUARD)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, for instance: apt install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


class Opened:
    """A page that remembers what it complained of and what it asked for."""

    def __init__(self, browser: Browser, path: Path, **options: object) -> None:
        self.context = browser.new_context(**options)  # type: ignore[arg-type]
        self.context.set_default_timeout(GUARD)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        expect(self.page.locator(NAMES)).to_have_count(7)

    def close(self) -> None:
        self.context.close()
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Opened]:
    found = Opened(browser, site.page, viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield found
    found.close()


def names(page: Page) -> list[str]:
    return page.locator(NAMES).all_inner_texts()


def test_it_sorts_by_any_column_and_says_so(opened: Opened) -> None:
    page = opened.page
    assert names(page)[:2] == ["sharper", "sharp"] or names(page)[:2] == ["sharp", "sharper"]
    page.get_by_role("button", name="Model").click()
    assert names(page) == sorted(names(page), key=str.lower)
    expect(page.locator("th[data-key=model]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Model").click()
    assert names(page) == sorted(names(page), key=str.lower, reverse=True)
    page.reload()
    expect(page.locator("th[data-key=model]")).to_have_attribute("aria-sort", "descending")


def test_controls_cannot_be_filtered_away(opened: Opened) -> None:
    page = opened.page
    page.locator(".more summary").click()
    page.get_by_label("Licence").select_option("Apache-2.0")
    assert sorted(names(page)) == ["longest", "random", "sharp"]
    expect(page.locator("#found")).to_contain_text("Controls always stay")
    page.get_by_label("Licence").select_option("")
    page.get_by_label("Search").fill("nothing has this name")
    assert sorted(names(page)) == ["longest", "random"]
    page.get_by_label("Search").fill("")
    page.get_by_label("Size").select_option("under 1B")
    assert sorted(names(page)) == ["longest", "middling", "random"]


def test_people_and_views_have_ranks_of_their_own(opened: Opened) -> None:
    page = opened.page
    rank = page.locator("tr", has=page.get_by_role("link", name="northblind", exact=True)).locator(".rank")
    page.locator("#by-part").select_option(label="region: south (26 users)")
    expect(rank).to_have_text("1")
    page.locator("#by-part").select_option(label="region: north (14 users)")
    expect(rank).not_to_have_text("1")
    page.locator("#by-part").select_option("0")
    page.locator("#by-view").focus()
    page.locator("#by-view").select_option(label="none")
    expect(page.locator("#by-view")).to_be_focused()
    page.get_by_role("link", name="Best for people like").click()
    expect(page.locator("h1")).to_have_text("Best for people like")
    expect(page.get_by_role("link", name="region: north")).to_be_visible()


def test_a_model_an_item_and_back_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.get_by_role("link", name="northblind", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("northblind")
    expect(page.locator("main")).to_contain_text("Clearly worse than everybody else: region north")
    expect(page.locator("main")).to_contain_text("Brier score")
    page.locator("#by-outcome").select_option("wrong")
    page.locator(".item-list a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Item")
    expect(page.locator(".profile")).to_contain_text("I always want")
    expect(page.locator("table")).to_contain_text("✗ wrong")
    before = page.locator("h1").inner_text()
    page.keyboard.press("j")
    expect(page.locator("h1")).not_to_have_text(before)
    page.keyboard.press("k")
    expect(page.locator("h1")).to_have_text(before)
    page.locator("#item-view").select_option("none")
    expect(page.locator(".profile")).to_contain_text("shows no profile")


def test_two_models_side_by_side_item_by_item(opened: Opened, site: Site) -> None:
    page = opened.page
    page.get_by_label("Compare sharp", exact=True).check()
    page.get_by_label("Compare middling").check()
    page.get_by_role("link", name="Compare sharp with middling").click()
    expect(page.locator("h1")).to_have_text("sharp and middling")
    rows = {row.model: row for table in site.summary.tables[:1] for row in table.rows}
    one, other = rows["sharp"].accuracy, rows["middling"].accuracy
    assert one is not None and other is not None
    expect(page.locator(".facts")).to_contain_text(f"+{100 * (one.value - other.value):.1f} points")
    page.locator("#by-outcome").select_option("first")
    page.locator(".item-list a").first.click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_hostile_names_and_words_are_text(opened: Opened) -> None:
    page = opened.page
    page.get_by_role("link", name="<img").click()
    expect(page.locator("h1")).to_contain_text('<img src=x onerror="alert(1)">')
    page.locator(".item-list a").first.click()
    page.get_by_text("its own words").click()
    expect(page.locator("pre")).to_contain_text(HOSTILE.split("\x1b")[0])
    assert page.locator("img").count() == 0


def test_the_history_tells_entries_and_reasons(opened: Opened) -> None:
    opened.page.get_by_role("link", name="How it was made").click()
    expect(opened.page.locator("main")).to_contain_text("first entry")
    expect(opened.page.get_by_role("region", name="History").locator("tbody tr")).to_have_count(7)


def test_an_address_that_leads_nowhere_says_so(opened: Opened) -> None:
    for address in ("#/model/none", "#/item/none/1", "#/pair/a/b", "#/elsewhere", "#/%E0%A4%A"):
        opened.page.evaluate("(address) => { location.hash = address; }", address)
        expect(opened.page.locator("h1")).to_have_text("Not on this board")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_every_page_fits_and_axe_finds_nothing_serious(browser: Browser, site: Site, width: int, scheme: str) -> None:
    found = Opened(browser, site.page, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = found.page
    model = page.locator(NAMES).first.get_attribute("href")
    other = page.locator(NAMES).nth(1).get_attribute("href")
    assert model and other
    first, second = (link.split("/")[-1] for link in (model, other))
    pages = {
        "#/": "Who knows what you drink?",
        model: names(page)[0],
        f"#/item/{first}/2?view=posts%3A1": "Item 3",
        f"#/pair/{first}/{second}": " and ".join(names(page)[:2]),
        "#/people": "Best for people like",
        "#/about": "How it was made",
    }
    for address, heading in pages.items():
        page.evaluate("(address) => { location.hash = address; }", address)
        expect(page.locator("h1")).to_have_text(heading)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
        serious = [
            (violation["id"], [node["html"] for node in violation["nodes"]][:2])
            for violation in Axe().run(page, options={"preload": False}).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
        assert serious == [], address
    found.close()
