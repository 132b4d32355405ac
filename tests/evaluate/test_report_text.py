from __future__ import annotations

import csv
import io
import re

import msgspec
import pytest
from report_sample import sample_summary
from rich.console import Console

from palate.evaluation import Slice, evaluation_document
from palate.evaluation._document import COLUMNS, ordered_slices
from palate.evaluation._results import Summary
from palate.report import document_csv, document_markdown, document_page, print_document

NAMES = [
    "</script><img src=x onerror=alert(1)>",
    "[red]model[/red]",
    "=cmd|' /C calc'!A0",
    "a|b `c` *d*",
    "\x1b[31mred\x1b[0m \u202eabc",
    "名前 🙂 \u2028 line",
]


def printed(summary: Summary, width: int = 80, *, terminal: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    print_document(
        evaluation_document(summary),
        Console(file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else "auto"),
    )
    file.flush()
    return raw.getvalue().decode(encoding)


def render_markdown(summary: Summary) -> str:
    return document_markdown(evaluation_document(summary))


def render_csv(summary: Summary) -> str:
    return document_csv(evaluation_document(summary))


def renamed(name: str) -> Summary:
    """The sample, with every embedding model called something hostile, and a hostile warning and title."""
    summary = sample_summary()
    changed = {
        field: [
            msgspec.structs.replace(row, rm=name) if row.rm == "embedding" else row for row in getattr(summary, field)
        ]
        for field in ("results", "gains", "differences", "slices", "user_accuracies")
    }
    return msgspec.structs.replace(summary, **changed, warnings=[name], benchmark_title=name)


def empty() -> Summary:
    """A run in which nothing was scored."""
    summary = sample_summary(gains=[], differences=[], slices=[], user_accuracies=[], complete=False)
    nothing = {"accuracy": None, "low": None, "high": None, "macro": None, "chance": None, "calibration": None}
    nothing |= {"oracle_gap_closed": None, "length_controlled": None}
    results = [msgspec.structs.replace(row, n=0, users=0, unscored=300, **nothing) for row in summary.results]
    return msgspec.structs.replace(summary, results=results)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("terminal", [False, True])
def test_terminal_fits_its_width(width: int, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(sample_summary(), width, terminal=terminal))
    assert max(map(len, text.splitlines())) <= width
    assert "70.7%" in text
    assert "+19.3*" in text


def test_plain_text_has_no_colour_and_no_drawing() -> None:
    text = printed(sample_summary(), 120)
    assert "\x1b" not in text
    assert not any("\u2500" <= character <= "\u259f" for character in text)


def test_terminal_has_bars_where_there_is_room() -> None:
    assert "━" in printed(sample_summary(), 120, terminal=True)
    assert "━" not in printed(sample_summary(), 80, terminal=True)


def test_no_colour_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in printed(sample_summary(), 120, terminal=True)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[32m" in printed(sample_summary(), 120, terminal=True)


def test_terminal_puts_controls_last_and_says_warnings_and_readings() -> None:
    text = printed(sample_summary())
    places = [
        text.index(part) for part in ("embedding", "Controls, which understand nothing", "random", "warning", "Seeing")
    ]
    assert places == sorted(places)
    assert "Chance is 50.0%." in text


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_are_inert_in_a_terminal(name: str) -> None:
    text = printed(renamed(name))
    assert "\x1b" not in text
    assert "\u202e" not in text
    if name.startswith("[red]"):
        assert "[red]model[/red]" in text


def test_a_narrow_alphabet_does_not_stop_the_report() -> None:
    assert "accuracy" in printed(renamed("名前"), encoding="ascii")


@pytest.mark.parametrize("render", [printed, render_markdown, render_csv])
def test_a_run_without_scores_is_rendered(render) -> None:  # type: ignore[no-untyped-def]
    assert "embedding" in render(empty())
    assert "nan" not in render(empty()).lower()


def test_incomplete_runs_say_so() -> None:
    assert "Not every item is rated yet" in printed(empty())
    assert "Not every item is rated yet" in render_markdown(empty())


def test_csv_has_a_row_for_each_model_and_view_and_full_precision() -> None:
    summary = sample_summary()
    rows = list(csv.DictReader(io.StringIO(render_csv(summary), newline="")))
    assert len(rows) == len(summary.results)
    assert list(rows[0]) == list(COLUMNS)
    row = next(row for row in rows if (row["rm"], row["view"]) == ("embedding", "posts:5"))
    result = next(r for r in summary.results if (r.rm, r.view) == ("embedding", "posts:5"))
    assert float(row["accuracy"]) == result.accuracy
    assert row["stranger"] == "swapped"
    assert float(row["gain_over_none"]) > 0
    assert row["twin_consistency"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r", "＝", "  ="])
def test_csv_names_cannot_start_a_formula(start: str) -> None:
    rows = list(csv.reader(io.StringIO(render_csv(renamed(start + "cmd|' /C calc'!A0")), newline="")))
    shown = start.translate({9: "\ufffd", 13: "\ufffd"})  # control characters are shown, not obeyed
    assert rows[1][0] == "'" + shown + "cmd|' /C calc'!A0"


def test_csv_quotes_as_rfc_4180_says() -> None:
    text = render_csv(renamed('a "b", c\nd'))
    assert '"a ""b"", c' in text
    assert text.endswith("\r\n")


def test_markdown_tables_keep_their_columns_whatever_the_name() -> None:
    for name in NAMES:
        text = render_markdown(renamed(name))
        assert "<img" not in text
        for line in text.splitlines():
            if line.startswith("| ") and "reward model" not in line:
                assert line.replace("\\|", "").count("|") in (9, 12), line


def test_markdown_has_reading_results_gains_and_differences() -> None:
    text = render_markdown(sample_summary())
    for part in (
        "# Evaluation: mini",
        "- **good**: embedding: it uses",
        "- **warning**",
        "## Accuracy",
        "gain",
        "## Differences",
    ):
        assert part in text
    assert "| embedding | posts:5 | 70.7% | 65.3–76.0 | +19.3\\* | +26.7\\* |" in text


def test_missing_intervals_are_left_blank_in_every_form() -> None:
    summary = sample_summary()
    fields = ("gains", "differences", "slices")
    bare = {
        field: [msgspec.structs.replace(row, low=None, high=None) for row in getattr(summary, field)]
        for field in fields
    }
    few = msgspec.structs.replace(summary, **bare)
    assert "too few users" in printed(few)
    assert "None" not in render_markdown(few)
    assert "None" not in render_csv(few)
    assert "None" not in document_page(evaluation_document(few)).split("<script>")[1]


def test_a_stranger_of_each_view_fits_eighty_columns() -> None:
    summary = sample_summary()
    longer = [
        msgspec.structs.replace(row, view="swapped:judgements:4", of="judgements:4") if row.of else row
        for row in summary.results
    ]
    text = printed(msgspec.structs.replace(summary, results=longer))
    assert "  swapped:judgements:4 " in text
    assert max(map(len, text.splitlines())) <= 80


def test_slices_that_are_amounts_keep_their_order() -> None:
    def slices(*values: str) -> list[Slice]:
        return [
            Slice(rm="a", view="none", by="known", value=value, n=n, users=5, accuracy=0.5, low=None, high=None)
            for n, value in enumerate(values)
        ]

    shown = ordered_slices(slices("over 50", "0", "11 to 50", "1 to 10"))
    assert [part.value for part in shown] == ["0", "1 to 10", "11 to 50", "over 50"]
    assert [part.value for part in ordered_slices(slices("Asia", "Europe"))] == ["Europe", "Asia"]
