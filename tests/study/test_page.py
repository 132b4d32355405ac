"""What a person sees of a study: on a page, on a phone, and in a terminal of 80 columns."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from plans import VIEW, best_of, guided, model, predictor, trained
from rich.console import Console

from palate.report import document_page, print_document
from palate.runs import open_run
from palate.study import STUDY, StudySummary, read_plan, study
from palate.study._document import study_document
from tiny_models import TinyModels

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "<script>alert('x')</script>[/bold]"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> StudySummary:
    """Twelve entries, and four outcomes, of which one is the same for nearly all."""
    folder, policy = tmp_path_factory.mktemp("page"), f"{tiny_models.causal()},device=cpu"
    here = {"benchmark": "sim,users=16,items=2,seed=3"}
    text = 'title = "Twelve & more"\n' + model("random", VIEW, family="control", name=HOSTILE)
    text += model("longest", family="control") + model("shortest", family="control")
    text += model("overlap", VIEW, family="control") + model("sim", VIEW, "user", f"swapped:{VIEW}", family="truth")
    for users in (4, 8, 16, 24):
        text += trained(f"per-user, {users} users", data="sim,users=24,seed=900", users=users, family="personal")
    text += trained(
        "impersonal", method="bradley-terry", data="sim,users=24,seed=900", views=["none"], family="general"
    )
    text += predictor("<i>sim", **here)
    text += best_of(policy, "best of 4, a long name of it", samples=4, in_context=["oracle"], **here)
    text += best_of(policy, "hot", samples=4, temperature=1.5, **here)
    text += guided(policy, critic="sim", models=["sim", "longest", "shortest"], **here)
    (folder / "plan.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(folder / "cache"))
        return study(read_plan(folder / "plan.toml"), out=folder / "runs")


def test_a_terminal_of_80_columns_shows_every_outcome(summary: StudySummary) -> None:
    written = io.StringIO()
    print_document(study_document(summary), Console(file=written, width=80, color_system=None))
    text = written.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    agreement = text.partition("What predicts what happens?")[2].partition("Which number")[0]
    for title in ("best of 4, a", "hot: gain", "guided: policy", "guided: gain"):
        assert title in agreement
    rows = [line for line in agreement.splitlines() if re.search(r"[+-]\d\.\d\d", line) or "–" in line]
    assert not [line for line in rows if "…" in line]
    assert re.search(r"accuracy, no profile .*\b\d+: ", agreement)  # over fewer entries than the others
    assert not re.search(r"<i>sim: accuracy .*\b\d+: ", agreement)
    context = text.partition("And without any reward model?")[2].partition("The entries")[0]
    assert "over it" in context and len(re.findall(r"[+-]\d\.\d+ to [+-]\d\.\d+", context)) == 2
    entries = text.partition("The entries")[2]
    assert "  sim, judgements:4  " in entries and "  per-user, 16 users, judgements:4" in entries


def test_what_one_entry_alone_has_takes_no_column(summary: StudySummary) -> None:
    alone = [replace(one, outcome="alone: gain", models=1, spearman=None) for one in summary.agreements[:2]]
    document = study_document(replace(summary, agreements=[*summary.agreements, *alone]))
    [agreement] = [section for section in document.sections if section.name == "Agreement"]
    assert "alone: gain" not in repr(agreement) and summary.agreements[0].outcome in repr(agreement)


def test_what_a_plan_says_is_text_and_nothing_else(summary: StudySummary) -> None:
    page = document_page(study_document(summary))
    assert "<script>alert" not in page and "<i>sim" not in page
    assert "&lt;script&gt;alert" in page and "Twelve &amp; more" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_every_section_is_on_the_page(summary: StudySummary) -> None:
    document = STUDY.document(open_run(Path(summary.run)), summary)
    assert [section.name for section in document.sections] == [
        "Agreement", "Which number", "Plots", "Families", "In context", "Entries", "Coefficients", "Costs",
    ]  # fmt: skip
    assert document.columns is not None and len(document.columns.rows) == 12


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, for instance: apt install chromium")
def test_it_is_readable_in_light_and_dark_and_on_a_phone(summary: StudySummary, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    path = tmp_path / "report.html"
    path.write_text(document_page(study_document(summary)), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))  # noqa: B023
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert not errors
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
            context.close()
        browser.close()
