"""The page of a guided run: what a person sees of the weight of the reward."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from palate.downstream import GuideSummary
from palate.downstream.guide._document import guide_sections
from palate.downstream.guide._results import PairResult, PolicyAccuracy, TextResult
from palate.report import document_of, document_page
from palate.stats import Figure

GUIDES = {("longest", "none"): 0.53, ("personal:bradley-terry", "judgements:4"): 0.71}
WEIGHTS = (0.0, 0.5, 5.0, 1000.0, 1e6, None)
HEIGHTS = "texts => texts.map(text => text.getBoundingClientRect().height)"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def around(value: float) -> Figure:
    return Figure(value=value, low=value - 0.04, high=value + 0.04)


def accuracies(policy_view: str) -> Iterator[PairResult]:
    for (rm, view), reward in GUIDES.items():
        steered = [0.5 + (reward - 0.51) * place / len(WEIGHTS) for place in range(len(WEIGHTS))]
        points = [
            PolicyAccuracy(weight=weight, normalised=around(value), whole=around(value), over_alone=around(0.0), q=0.5)
            for weight, value in zip(WEIGHTS, steered, strict=True)
        ]
        yield PairResult(
            policy_view=policy_view, rm=rm, view=view, n=200, users=40, left_out=0, reasons={},
            reward_accuracy=around(reward), policy_accuracy=points,
        )  # fmt: skip


def text(policy_view: str, rm: str, view: str, weight: float, score: float) -> TextResult:
    return TextResult(
        policy_view=policy_view, rm=rm, view=view, weight=weight, n=200, users=40, failed=0, ungraded=0, reasons={},
        empty=0, unfinished=0, mean_tokens=12.0, log_probability=-1.5, score=around(score), reward_gain=around(0.1),
        over_alone=None,
    )  # fmt: skip


def texts(policy_view: str) -> Iterator[TextResult]:
    yield text(policy_view, "", "", 0.0, 0.3)
    for rise, (rm, view) in enumerate(GUIDES, start=1):
        yield from (text(policy_view, rm, view, weight, 0.3 + rise * weight / 100) for weight in (0.5, 5.0, 25.0))


def summary(*policy_views: str) -> GuideSummary:
    return GuideSummary(
        kind="guide", run="runs/tea-guide-0123456789", benchmark="tea", version="1", benchmark_title="Tea",
        benchmark_hash="0" * 64, licence="CC0-1.0", policy="smollm2", critic="reference", top_k=10, tokens=64, chunk=1,
        temperature=0.0, seed=0,
        items=200, pairs=200, users=40, complete=True,
        accuracies=[one for view in policy_views for one in accuracies(view)],
        texts=[one for view in policy_views for one in texts(view)],
        personal=[],
        shown=[],
        warnings=[],
        findings=[],
    )  # fmt: skip


def page_of(summary: GuideSummary) -> str:
    """The page without items, which stand in the run's folder."""
    return document_page(
        document_of(
            summary, name="Guided decoding", size="", lead="", facts={}, unfinished="", findings=[],
            sections=guide_sections(summary),
        )
    )  # fmt: skip


def pictures(page: str) -> list[str]:
    return re.findall(r'<svg role="img" viewBox="0 0 480 300".*?</svg>', page, re.DOTALL)


def test_each_guide_is_a_line_beside_its_reward_accuracy() -> None:
    accuracy, score = pictures(page_of(summary("none")))
    for picture in (accuracy, score):
        assert picture.count('class="curve-line') == picture.count('class="curve-band') == 2
    assert accuracy.count('class="curve-level') == 2
    for said in (
        "longest, none: weight 0: 50.0% (46.0–54.0), weight 0.5: 50.3% (46.3–54.3)",
        "weight 1e+06: 51.3%",
        "weight large: 66.7%",
        "reward accuracy of personal:bradley-terry, judgements:4: 71.0%",
    ):
        assert said in accuracy, said
    assert score.count('class="curve-level none"') == 1
    assert "the policy alone: 0.300" in score
    for said in ("weight 0: 0.300", "weight 0.5: 0.305", "weight 5: 0.350", "weight 25: 0.550"):
        assert said in score, said


def test_weights_stand_in_their_order_at_like_distances() -> None:
    accuracy, _ = pictures(page_of(summary("none")))
    ticks = re.findall(r'x="([\d.]+)" y="274" text-anchor="middle">([^<]+)<', accuracy)
    assert [text for _, text in ticks] == ["0", "0.5", "5", "1000", "1e+06", "large"]
    places = [float(place) for place, _ in ticks]
    distances = [later - earlier for earlier, later in pairwise(places)]
    assert distances == pytest.approx([distances[0]] * 5)


def test_each_policy_view_has_pictures_of_its_own_and_a_run_without_texts_none_of_them() -> None:
    page = page_of(summary("none", "judgements:4"))
    assert len(pictures(page)) == 4
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    [accuracy] = pictures(page_of(msgspec.structs.replace(summary("none"), texts=[], critic=None)))
    assert "Policy accuracy" in accuracy


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, for instance: apt install chromium")
def test_it_is_readable_in_light_and_dark_and_on_a_phone(tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    path = tmp_path / "report.html"
    path.write_text(page_of(summary("none", "judgements:4")), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            heights = page.locator(".chart .tick-text").evaluate_all(HEIGHTS)
            assert min(heights) >= 11
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
            context.close()
        browser.close()
