from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright
from report_sample import VIEWS, sample_document, sample_items, sample_summary
from test_report_page import hostile_item, render_page
from test_report_text import renamed

from palate.evaluation import RatedItem
from palate.evaluation._items import item_card
from palate.records import Rating
from palate.report import ItemText, document_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
GUARD = 300_000  # milliseconds after which a page hangs, however busy the machine is
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


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(document_page(sample_document()), encoding="utf-8")
    return path


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


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    found = Opened(browser, report, viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield found
    found.context.close()
    assert found.errors == []
    assert [url for url in found.requests if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in found.requests) <= 2


def test_the_browser_lists_items_and_shows_the_first(opened: Opened) -> None:
    page = opened.page
    expect(page.locator("#found")).to_have_text("300 items")
    expect(page.locator("[role=option]")).to_have_count(50)
    expect(page.locator("#detail h3")).to_have_text("item-000-0")
    expect(page.locator(".response.highlighted")).to_contain_text("preferred by this user")


def test_a_user_is_named_as_in_the_data(browser: Browser, tmp_path: Path) -> None:
    document = sample_document()
    [item, *_] = document.items
    named = msgspec.structs.replace(document, items=[msgspec.structs.replace(item, user="ann_00")])
    path = tmp_path / "report.html"
    path.write_text(document_page(named), encoding="utf-8")
    found = Opened(browser, path)
    expect(found.page.locator("#detail")).to_contain_text("user ann_00")
    found.context.close()


def test_an_item_without_any_score_is_not_counted_as_none_right(browser: Browser, tmp_path: Path) -> None:
    document = sample_document()
    [item, *_] = document.items
    unscored = [msgspec.structs.replace(rating, outcome="unscored", scores=None) for rating in item.ratings]
    silent = msgspec.structs.replace(document, items=[msgspec.structs.replace(item, ratings=unscored)])
    path = tmp_path / "report.html"
    path.write_text(document_page(silent), encoding="utf-8")
    found = Opened(browser, path)
    expect(found.page.locator("[role=option]")).to_contain_text("? unscored")
    found.context.close()


def test_search_and_filters(opened: Opened) -> None:
    page = opened.page
    page.get_by_label("Search").fill("item-007")
    expect(page.locator("#found")).to_have_text("5 of 300 items")
    page.get_by_label("Search").fill("nothing has this")
    expect(page.locator("#detail")).to_contain_text("No item fits")
    page.get_by_label("Search").fill("")
    counts = 0
    page.locator("#by-model").select_option("judge:small")
    page.locator("#by-view").select_option("posts:5")
    for outcome in ("right", "wrong", "tied", "unscored"):
        page.locator("#by-outcome").select_option(outcome)
        text = page.locator("#found").inner_text()
        shown = int(text.split()[0])
        counts += shown
        if shown:
            expect(page.locator("[role=option]").first).to_contain_text(outcome)
            expect(page.locator("#detail tbody tr")).to_have_count(1)
    assert counts == 300
    expect(page.locator("#detail")).to_contain_text("no verdict in the answer")


def test_keys_move_through_the_items(opened: Opened) -> None:
    page = opened.page
    page.locator("#list").focus()
    for key in ("ArrowDown", "j", "j", "k", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#detail h3")).to_have_text("item-000-2")
    expect(page.locator("[aria-selected=true]")).to_have_count(1)
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert page.locator("[aria-selected=true]").get_attribute("id") == active
    page.keyboard.press("End")
    expect(page.locator("#detail h3")).to_have_text("item-059-4")
    expect(page.locator("#pages")).to_have_text("251–300 of 300")
    page.keyboard.press("Home")
    expect(page.locator("#detail h3")).to_have_text("item-000-0")


def test_letters_in_the_search_box_are_letters(opened: Opened) -> None:
    opened.page.get_by_label("Search").press_sequentially("jk")
    expect(opened.page.get_by_label("Search")).to_have_value("jk")


def test_pages_turn(opened: Opened) -> None:
    opened.page.get_by_role("button", name="Next").click()
    expect(opened.page.locator("#pages")).to_have_text("51–100 of 300")
    opened.page.locator("[role=option]").nth(3).click()
    expect(opened.page.locator("#detail h3")).to_have_text("item-010-3")


def test_an_item_has_a_link_of_its_own(opened: Opened) -> None:
    page = opened.page
    page.locator("[role=option]").nth(2).click()
    page.locator("#detail h3 a").click()
    assert page.url.endswith("#item=item-000-2")
    page.get_by_label("Search").fill("item-007")
    page.goto(page.url.replace("item-000-2", "item-031-4"))
    expect(page.locator("#detail h3")).to_have_text("item-031-4")
    page.reload()
    expect(page.locator("#detail h3")).to_have_text("item-031-4")


def test_items_are_sorted_as_asked(opened: Opened) -> None:
    page = opened.page
    page.locator("#by-model").select_option("embedding")
    page.locator("#by-view").select_option("posts:5")
    page.locator("#sort").select_option("wrong")
    expect(page.locator("[role=option]").first).to_contain_text("wrong")


def test_controls_are_counted_apart_and_their_same_rows_are_one(opened: Opened) -> None:
    page = opened.page
    for place, item in enumerate(sample_items()[:8]):
        models = [rating for rating in item.ratings if not rating.control]
        assert len(models) == 10 < len(item.ratings)
        right = sum(rating.outcome == "right" for rating in models)
        expect(page.locator("[role=option]").nth(place)).to_contain_text(f"{right} of 10 right")
    bodies = page.locator("#detail tbody")
    expect(bodies.filter(has_text="random").locator("tr")).to_have_count(1)
    expect(bodies.filter(has_text="random")).to_contain_text("every view")
    expect(bodies.filter(has_text="embedding").locator("tr")).to_have_count(5)
    page.locator("#by-model").select_option("random")
    expect(page.locator("[role=option]").first).to_contain_text("of 5 right")


def test_items_are_sorted_by_margin_disagreement_and_sure_mistakes(browser: Browser, tmp_path: Path) -> None:
    scores = {
        "near": ([0.1, 0.0], [50.0, 0.0]),
        "far": ([3.0, 0.0], [300.0, 0.0]),
        "apart": ([2.0, 0.0], [0.0, 200.0]),
        "mistaken": ([0.0, 1.0], [0.0, 900.0]),
    }
    items = [
        item_card(
            RatedItem(id=name, user_id=user, prompt="?", responses=("tea", "coffee"), preferred=0), [0, 1], {},
            [("small", "none", Rating(scores=small)), ("large", "none", Rating(scores=large)),
             ("random", "none", Rating(scores=[0.0, 1.0]))],
        )
        for user, (name, (small, large)) in zip("dcba", scores.items(), strict=True)
    ]  # fmt: skip
    path = tmp_path / "sorted.html"
    path.write_text(render_page(sample_summary(), items), encoding="utf-8")
    found = Opened(browser, path)
    firsts = {"close": "near", "divided": "apart", "sure": "mistaken", "wrong": "mistaken", "user": "mistaken"}
    for order, first in firsts.items():
        found.page.locator("#sort").select_option(order)
        expect(found.page.locator("#detail h3")).to_have_text(first)
    found.page.locator("#sort").select_option("close")
    found.page.locator("#by-model").select_option("small")
    expect(found.page.locator("[role=option]").first).to_contain_text("margin 0.1")
    assert found.errors == []
    found.context.close()


def test_the_words_of_a_judge_stand_with_each_item(browser: Browser, tmp_path: Path) -> None:
    item = RatedItem(id="i", user_id="u", prompt="?", responses=("tea", "coffee"), preferred=0)
    raw = '{"judge":["Tea suits them. [[A]]","\\"Tea\\" again: [[B]]"],"responses":2}'
    card = item_card(item, [0, 1], {}, [("judge:small", "none", Rating(scores=[1.0, 0.0], raw=raw))])
    path = tmp_path / "judged.html"
    path.write_text(render_page(sample_summary(), [card]), encoding="utf-8")
    found = Opened(browser, path)
    found.page.get_by_text("its own words").click()
    words = found.page.get_by_role("region", name="The model's own words")
    expect(words).to_contain_text("Text 1 as A, text 2 as B: Tea suits them. [[A]]")
    expect(words).to_contain_text('Text 2 as A, text 1 as B: "Tea" again: [[B]]')
    found.context.close()


def test_a_plot_is_saved_as_svg_and_png(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    button = page.get_by_role("button", name="Save Accuracy of each reward model under each view as")
    files = []
    for place in range(2):
        with page.expect_download() as waiting:
            button.nth(place).click()
        files.append(tmp_path / waiting.value.suggested_filename)
        waiting.value.save_as(files[-1])
    vector, pixels = files
    assert (vector.suffix, pixels.suffix) == (".svg", ".png")
    drawn = ElementTree.fromstring(vector.read_text(encoding="utf-8"))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    shown = page.locator(".drawing").first.locator("text").all_text_contents()
    assert {"embedding", "judge:small", "posts:5", "oracle", "chance"} <= set(texts)
    assert all(any(text in whole for whole in shown) or text in {*VIEWS, "chance"} for text in texts if text)
    assert not [element for element in drawn.iter() if "class" in element.attrib or "var(" in str(element.attrib)]
    assert not [value for element in drawn.iter() for value in element.attrib.values() if value.endswith("%")]
    assert pixels.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(pixels.read_bytes()[16:20])
    assert width == 2 * int(drawn.attrib["width"]) > 1600


def test_tab_reaches_every_control(opened: Opened) -> None:
    page = opened.page
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {
        "skip",
        "theme",
        "choice-4-1",
        "search",
        "sort",
        "by-model",
        "by-view",
        "by-outcome",
        "list",
        "next",
    } <= reached
    assert "profile-view" in reached


def test_profile_follows_the_chosen_view(opened: Opened) -> None:
    page = opened.page
    expect(page.locator(".profile")).to_have_text("Posts of user 0")
    page.locator("#profile-view").select_option("none")
    expect(page.locator(".profile")).to_contain_text("Nothing: this view shows no profile")
    page.locator("#by-view").select_option("judgements:4")
    expect(page.locator(".profile")).to_have_text("Judgements of user 0")


def test_slices_show_the_chosen_table(opened: Opened) -> None:
    page = opened.page
    expect(page.locator("details.chosen-by:visible")).to_have_count(1)
    page.locator("#choice-4-1").select_option(label="overlap, oracle")
    expect(page.get_by_role("region", name="overlap, oracle")).to_be_visible()


def test_theme_toggle_is_remembered(opened: Opened) -> None:
    page = opened.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(browser: Browser, report: Path, width: int) -> None:
    found = Opened(browser, report, viewport={"width": width, "height": 800})
    found.page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    found.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, report: Path, scheme: str) -> None:
    found = Opened(browser, report, viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    found.page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    violations = Axe().run(found.page).response["violations"]
    grave = [(each["id"], each["nodes"][0]["html"]) for each in violations if each["impact"] in ("serious", "critical")]
    assert grave == []
    found.context.close()


def test_without_javascript_everything_but_the_browser_is_there(browser: Browser, report: Path) -> None:
    found = Opened(browser, report, java_script_enabled=False)
    expect(found.page.locator("noscript .callout")).to_be_visible()
    expect(found.page.locator(".plot svg").first).to_be_visible()
    expect(found.page.locator("#browser")).to_be_hidden()
    found.page.locator("details.chosen-by summary").first.click()
    expect(found.page.locator("details.chosen-by table").first).to_be_visible()
    found.context.close()


def test_hostile_text_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    text = "</script><img src=x onerror=\"document.title='owned'\"><b>bold</b>\u2028"
    path = tmp_path / "hostile.html"
    path.write_text(render_page(renamed(text), [hostile_item(text)]), encoding="utf-8")
    found = Opened(browser, path)
    expect(found.page.locator("#detail h3")).to_contain_text("</script><img")
    assert found.page.title() != "owned"
    assert found.page.locator("img, b").count() == 0
    assert found.errors == []
    found.context.close()


def spent(clock: CDPSession) -> float:
    """Seconds that the page has computed so far."""
    return {one["name"]: one["value"] for one in clock.send("Performance.getMetrics")["metrics"]}["TaskDuration"]


def test_two_thousand_items_and_a_long_response_stay_quick(browser: Browser, tmp_path: Path) -> None:
    items = sample_items(users=400)
    items[1] = msgspec.structs.replace(items[1], texts=[ItemText(label="Response 1", text="long " * 200_000)])
    path = tmp_path / "many.html"
    path.write_text(render_page(sample_summary(), items), encoding="utf-8")
    found = Opened(browser, path)
    expect(found.page.locator("#found")).to_have_text("2,000 items")
    clock = found.context.new_cdp_session(found.page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})  # time on the processor, not on the wall
    started = spent(clock)
    found.page.locator("#list").focus()
    for _ in range(20):
        found.page.keyboard.press("j")
    found.page.get_by_label("Search").fill("user 399")
    expect(found.page.locator("#found")).to_have_text("5 of 2,000 items")
    assert spent(clock) - started < 5
    assert found.errors == []
    found.context.close()
