"""People and team in a real browser: every kind of task, phone and desktop, a network that comes and goes."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from collection import Collection, Served, make_collection
from playwright.sync_api import Browser, Page, expect, sync_playwright

from palate.collect._access import invite
from palate.collect._init import make_project
from tiny_models import TinyModels

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
GUARD = 120_000  # milliseconds after which a page hangs, however busy the machine is
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
expect.set_options(timeout=GUARD)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


class Visit:
    """One person's browser at a collection that is served by a process of its own."""

    def __init__(self, browser: Browser, made: Collection, server: Served, **options: Any) -> None:
        self.made, self.server = made, server
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(GUARD)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))

    def enter(self, **options: Any) -> Page:
        path = invite(self.made.store, self.made.keys, **options)[0].path
        self.page.goto(self.server.address + path)
        return self.page

    def start(self) -> Page:
        page = self.enter()
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Start").click()
        return page

    def accessible(self) -> None:
        """axe-core finds nothing serious."""
        found = Axe().run(self.page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Any]:
    opened: list[Visit] = []
    example, changes = request.param if isinstance(request.param, tuple) else (request.param, {})
    with make_collection(tmp_path / "study", example, **changes) as made:
        server = Served(made.folder)

        def open_visit(**options: Any) -> Visit:
            opened.append(Visit(browser, made, server, **options))
            return opened[-1]

        try:
            yield open_visit
        finally:
            for one in opened:
                one.context.close()
            server.kill()


SHORT = ("compare", {"per_person": "3", "repeats": "0", "checks": "0"})


def answers_of(visit: Visit) -> list[Any]:
    return list(visit.made.store.collected(visit.made.project).answers)


@pytest.mark.parametrize("visit", [SHORT], indirect=True)
@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=["phone", "desktop"])
def test_pairs_by_keyboard_with_undo_and_a_lost_network(visit: Any, size: dict[str, int], scheme: str) -> None:
    ann = visit(viewport=size, color_scheme=scheme)
    page = ann.start()
    counts, state = page.locator("#counts"), page.locator("#state")
    expect(counts).to_contain_text("0 of 3")
    expect(page.locator(".response")).to_have_count(2)
    ann.accessible()
    first = page.locator("#prompt-text").inner_text()
    page.keyboard.press("1")
    expect(page.locator("#chosen")).to_have_text("You prefer answer 1.")
    expect(state).to_have_text("Saved")
    page.locator("[name=strength]").nth(1).check()
    page.locator("#reason").fill("1 2 0 u are letters here")
    expect(page.locator("#chosen")).to_have_text("You prefer answer 1.")
    ann.accessible()
    page.get_by_role("button", name="Next").click()
    expect(counts).to_contain_text("1 of 3")
    page.keyboard.press("u")
    expect(counts).to_contain_text("0 of 3")
    expect(page.locator("#prompt-text")).to_have_text(first)
    page.keyboard.press("0")
    expect(page.locator("#chosen")).to_have_text("You find them equally good.")
    page.keyboard.press("Enter")
    expect(counts).to_contain_text("1 of 3")
    expect(state).to_have_text("Saved")

    ann.context.set_offline(True)
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(counts).to_contain_text("2 of 3")
    expect(state).to_contain_text("Offline")
    assert len(answers_of(ann)) == 1
    ann.context.set_offline(False)
    page.reload()
    expect(counts).to_contain_text("2 of 3")
    expect(state).to_have_text("Saved")
    assert len(answers_of(ann)) == 2

    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/done")
    ann.accessible()
    answers = answers_of(ann)
    assert len(answers) == 3 and answers[0].tie and len({answer.item for answer in answers}) == 3
    page.locator(".code a").click()
    page.get_by_role("button", name="Erase everything I gave").click()
    expect(page.get_by_role("heading", name="You have withdrawn")).to_be_visible()
    assert answers_of(ann) == []


@pytest.mark.parametrize("visit", ["survey"], indirect=True)
def test_a_survey_saves_every_answer_at_once(visit: Any) -> None:
    ann = visit(viewport=PHONE)
    page = ann.start()
    page.get_by_label("30 to 44").check()
    page.get_by_label("work", exact=True).check()
    page.get_by_role("group", name="How much detail").get_by_label("4").check()
    page.get_by_label("What annoys you in an answer?").fill("Long prefaces.")
    page.locator("[name=pvq-01]").nth(5).check()
    expect(page.locator("#state")).to_have_text("Saved")
    ann.accessible()
    page.reload()
    expect(page.get_by_label("30 to 44")).to_be_checked()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/done")
    given = {one.question: one.value for one in ann.made.store.collected(ann.made.project).survey}
    assert given == {
        "age": "30 to 44", "uses": ["work"], "detail": 4, "annoys": "Long prefaces.", "pvq-01": 6, "finished": "yes",
    }  # fmt: skip


@pytest.mark.parametrize("visit", ["survey"], indirect=True)
def test_an_answer_given_before_the_script_has_come_is_saved(visit: Any) -> None:
    ann = visit(viewport=PHONE)
    held: list[Any] = []
    ann.context.route("**/survey.js*", lambda route: held.append(route))
    page = ann.start()
    page.get_by_label("30 to 44").check()
    page.get_by_label("work", exact=True).check()
    page.get_by_label("What annoys you in an answer?").fill("Long prefaces.")
    expect(page.locator("#state")).to_have_text("")
    held[0].continue_()
    expect(page.locator("#state")).to_have_text("Saved")
    given = {one.question: one.value for one in ann.made.store.collected(ann.made.project).survey}
    assert given == {"age": "30 to 44", "uses": ["work"], "annoys": "Long prefaces."}


@pytest.mark.parametrize("visit", ["survey"], indirect=True)
def test_answers_that_wait_in_the_browser_are_shown_after_a_reload(visit: Any) -> None:
    ann = visit(viewport=PHONE)
    page = ann.start()
    state = page.locator("#state")
    page.get_by_label("30 to 44").check()
    page.get_by_label("work", exact=True).check()
    # "Saved" may still be of the answer before: the last one has to have arrived before the connection is cut.
    with page.expect_response(lambda answer: "pvq-01" in (answer.request.post_data or "")):
        page.locator("[name=pvq-01]").nth(5).check()
    expect(state).to_have_text("Saved")
    ann.context.route("**/api/events", lambda route: route.abort())
    page.get_by_label("18 to 29").check()
    page.get_by_label("work", exact=True).uncheck()
    page.locator("[name=pvq-01]").nth(2).check()
    page.get_by_label("What annoys you in an answer?").fill("Long prefaces.")
    page.get_by_label("What annoys you in an answer?").blur()
    expect(state).to_contain_text("4 answers kept")
    page.reload()
    # What waits is not queued once more: after a second attempt there are still four.
    expect(state).to_contain_text("4 answers kept")
    page.wait_for_timeout(1500)
    expect(state).to_contain_text("4 answers kept")
    expect(page.get_by_label("18 to 29")).to_be_checked()
    expect(page.get_by_label("work", exact=True)).not_to_be_checked()
    expect(page.locator("[name=pvq-01]").nth(2)).to_be_checked()
    expect(page.get_by_label("What annoys you in an answer?")).to_have_value("Long prefaces.")
    ann.context.unroute("**/api/events")
    expect(state).to_have_text("Saved")
    given = {one.question: one.value for one in ann.made.store.collected(ann.made.project).survey}
    assert given == {"age": "18 to 29", "annoys": "Long prefaces.", "pvq-01": 3}


@pytest.mark.parametrize("visit", [("validate", {"per_person": "1"})], indirect=True)
def test_a_blind_validation_shows_the_profile_last(visit: Any) -> None:
    ann = visit(viewport=DESKTOP)
    page = ann.start()
    expect(page.locator(".response")).to_have_count(2)
    expect(page.locator("#profile")).to_be_hidden()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#missing")).to_be_visible()
    for name in ("factuality", "relevance", "helpfulness"):
        for place in (0, 1):
            page.locator(f"[name='{name}-{place}'][value='4']").check()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#profile")).to_be_visible()
    ann.accessible()
    page.locator("[name='personal fit-0'][value='1']").check()
    page.locator("[name='personal fit-1'][value='5']").check()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/done")
    [answer] = answers_of(ann)
    assert set(answer.ratings) == {"factuality", "relevance", "helpfulness", "personal fit"}


def test_ones_own_prompt_is_answered_by_two_models(browser: Browser, tmp_path: Path, tiny_models: TinyModels) -> None:
    with make_collection(tmp_path / "study", "feedback", prompts="1", tokens="12") as made:
        file = made.folder / "project.toml"
        text = file.read_text()
        for seed in (0, 1):
            text = text.replace('policy = "smollm2"', f'policy = "{tiny_models.causal(seed=seed)}"', 1)
        file.write_text(text)
        server = Served(made.folder)
        ann = Visit(browser, made, server, viewport=PHONE)
        try:
            page = ann.start()
            page.get_by_label("Your question or request").fill("What shall I cook with leeks?")
            ann.accessible()
            page.get_by_role("button", name="Ask both assistants").click()
            expect(page.locator(".response")).to_have_count(2)
            expect(page.locator("#prompt-text")).to_contain_text("leeks")
            page.locator(".response button").first.click()
            page.get_by_label("Improve the better answer").fill("Leek and potato soup.")
            page.get_by_role("button", name="Next").click()
            page.wait_for_url("**/done")
            [answer] = answers_of(ann)
            [item] = made.store.collected(made.project).items
            assert item.participant == answer.participant and item.models == ("brief", "friendly")
            assert answer.edit == "Leek and potato soup." and answer.choice is not None
        finally:
            ann.context.close()
            server.kill()


@pytest.mark.parametrize("visit", [SHORT], indirect=True)
def test_the_team_invites_watches_and_exports(visit: Any) -> None:
    team = visit(viewport=DESKTOP)
    page = team.page
    page.goto(team.server.owner)
    expect(page.get_by_role("heading", name="How the collection stands")).to_be_visible()
    page.get_by_label("How many").fill("1")
    page.locator("[name=group]").fill("region=north")
    page.get_by_role("button", name="Make invitations").click()
    link = page.locator("#fresh td").first.inner_text()
    team.accessible()
    ann = visit(viewport=PHONE)
    ann.page.goto(link)
    ann.page.get_by_role("checkbox").check()
    ann.page.get_by_role("button", name="Start").click()
    for number in range(3):
        expect(ann.page.locator("#counts")).to_contain_text(f"{number} of 3")
        ann.page.locator(".response button").first.click()
        ann.page.get_by_role("button", name="Next").click()
    ann.page.wait_for_url("**/done")
    expect(page.locator("#live-answers")).to_have_text("3")  # by itself
    page.get_by_role("button", name="Export what stands now").click()
    expect(page.locator(".note")).to_contain_text("Exported to")
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("zip")).click()
    assert download.value.suggested_filename.endswith(".zip")
    page.get_by_role("link", name="Plan").click()
    expect(page.get_by_role("heading", name="To see a gain")).to_be_visible()
    team.accessible()
    page.goto(f"{team.server.address}/team")
    page.get_by_label("Person", exact=True).fill(answers_of(ann)[0].participant)
    page.get_by_role("button", name="Erase everywhere").click()
    expect(page.locator(".note")).to_contain_text("Erased")
    assert answers_of(ann) == []
    assert team.errors == []


@pytest.mark.parametrize("visit", [SHORT], indirect=True)
def test_a_page_loaded_again_without_a_network_says_that_answers_are_safe(visit: Any) -> None:
    ann = visit(viewport=PHONE)
    page = ann.start()
    expect(page.locator("#state")).to_be_visible()
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    page.wait_for_function("navigator.serviceWorker.controller !== null")
    ann.server.kill()
    page.reload()
    expect(page.get_by_role("heading")).to_have_text("The network is away")
    expect(page.get_by_text("Your answers are safe")).to_be_visible()


@pytest.mark.parametrize("visit", ["survey"], indirect=True)
def test_answers_that_wait_for_one_person_are_not_sent_as_those_of_the_next_at_the_same_browser(visit: Any) -> None:
    lab = visit()
    links = [invite(lab.made.store, lab.made.keys)[0].path for _ in range(2)]

    def come(path: str) -> Page:
        page: Page = lab.context.new_page()
        page.goto(lab.server.address + path)
        if page.get_by_role("checkbox", name="agree").count():
            page.get_by_role("checkbox").check()
            page.get_by_role("button", name="Start").click()
        expect(page.locator("#survey")).to_be_visible()
        return page

    first = come(links[0])
    (ann,) = {one.id for one in lab.made.store.collected(lab.made.project).participants}
    lab.context.set_offline(True)
    first.get_by_label("30 to 44").check()
    expect(first.locator("#state")).to_contain_text("Offline")
    first.close()
    lab.context.set_offline(False)

    second = come(links[1])
    expect(second.get_by_label("30 to 44")).not_to_be_checked()
    second.get_by_label("work", exact=True).check()
    expect(second.locator("#state")).to_have_text("Saved")
    second.close()

    first = come(links[0])
    expect(first.get_by_label("30 to 44")).to_be_checked()
    until = time.monotonic() + 10  # what waited is sent when the page is there
    stored: set[tuple[str, bool]] = set()
    while len(stored) < 2 and time.monotonic() < until:
        first.wait_for_timeout(50)
        survey = lab.made.store.collected(lab.made.project).survey
        stored = {(one.question, one.participant == ann) for one in survey}
    assert stored == {("age", True), ("uses", False)}


@pytest.mark.parametrize("visit", ["survey"], indirect=True)
def test_an_answer_is_sent_where_the_browser_keeps_nothing(visit: Any) -> None:
    full = visit()
    full.context.add_init_script(
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"
    )
    page = full.start()
    page.get_by_label("30 to 44").check()
    expect(page.locator("#state")).to_have_text("Saved")
    assert [one.value for one in full.made.store.collected(full.made.project).survey] == ["30 to 44"]


@pytest.mark.parametrize("visit", [("validate", {"per_person": "2"})], indirect=True)
def test_a_profile_that_comes_late_is_not_shown_with_another_item(visit: Any) -> None:
    ann = visit(viewport=DESKTOP)
    page = ann.start()

    def grade(*names: str) -> None:
        for name in names:
            for place in (0, 1):
                page.locator(f"[name='{name}-{place}'][value='4']").check()
        page.get_by_role("button", name="Continue").click()

    general = ("factuality", "relevance", "helpfulness")
    grade(*general)
    expect(page.locator("#profile")).to_be_visible()
    grade("personal fit")
    expect(page.locator("#counts")).to_contain_text("1 of 2")
    held: list[Any] = []
    page.route("**/profile?*", lambda route: held.append(route))
    with page.expect_request("**/profile?*"):
        grade(*general)
    page.keyboard.press("u")
    expect(page.locator("#counts")).to_contain_text("0 of 2")
    with page.expect_response("**/profile?*") as answered:
        held[0].continue_()
    answered.value.finished()
    page.evaluate("() => new Promise((done) => { setTimeout(done, 200); })")
    expect(page.locator("#profile")).to_be_hidden()
    expect(page.locator("[data-dimension=factuality]")).to_be_visible()


def test_a_double_click_answers_one_item(browser: Browser, tmp_path: Path) -> None:
    asked = dict.fromkeys(("strength", "satisfaction", "reason"), "false") | {"values": "[]", "per_person": "3"}
    make_project(tmp_path / "study", "compare")
    texts = ["first text", "other text"]  # as long as those of the next item, so that nothing moves on the page
    rows = [{"id": f"item-{place}", "prompt": f"Which, {place}?", "responses": texts} for place in range(4)]
    file = tmp_path / "study" / "project.toml"
    text = file.read_text()
    for key, value in {**asked, "overlap": "0", "repeats": "0", "checks": "0"}.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    file.write_text(text)
    (tmp_path / "study" / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    made = Collection(tmp_path / "study")
    server = Served(made.folder)
    try:
        ann = Visit(browser, made, server)
        page = ann.start()
        page.locator(".response button").first.dblclick()
        expect(page.locator("#counts")).to_contain_text("1 of 3")
        expect(page.locator("#state")).to_have_text("Saved")
        assert len(made.store.collected(made.project).answers) == 1
        page.locator(".response button").first.click()
        expect(page.locator("#counts")).to_contain_text("2 of 3")
        ann.context.close()
    finally:
        server.kill()
        made.store.close()
