"""The report as Markdown, for an issue, a pull request or a paper's appendix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.evaluation._report._groups import Group, Row, groups, telling_differences
from palate.evaluation._report._reading import NO_PERSONAL_GAIN, readings
from palate.evaluation._results import Difference, Gain, OverBaseline, Summary
from palate.report._numbers import (
    ABSENT,
    CLEAR,
    chance_of_error,
    count,
    percent,
    percent_interval,
    points,
    points_interval,
)
from palate.report._table import Table, markdown_table, safe_markdown

_FOOTNOTE = (
    "Gains are in percentage points; * marks q < .05, the false discovery rate held over all gains of the run. "
    "A tie counts its fair share and an unscored item counts neither way. Intervals are 95% and resample "
)


def render_markdown(summary: Summary) -> str:
    """Reading, warnings, results, gains and differences, with tables that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"# {safe_markdown(summary.benchmark_title)}"
    yield ""
    yield (
        f"{count(summary.items, 'item')}, {count(summary.users, 'user')}; "
        f"benchmark {safe_markdown(summary.benchmark)}, "
        f"hash {safe_markdown(summary.benchmark_hash)}, licence {safe_markdown(summary.licence)}, seed {summary.seed}."
    )
    if summary.split:
        yield from ("", safe_markdown(summary.split))
    yield ""
    yield from (f"- {safe_markdown(reading.text)}" for reading in readings(summary))
    yield from _warnings(summary)
    yield from ("", "## Results", "")
    found = groups(summary)
    yield from _results([group for group in found if not group.control])
    controls = [group for group in found if group.control]
    if controls:
        yield from ("", "### Controls, which understand nothing", "")
        yield from _results(controls)
    yield from ("", f"{_FOOTNOTE}{summary.resampled}.")
    yield from (f"\n{safe_markdown(line)}" for line in summary.strangers)
    yield from _gains(summary)
    yield from _over_baseline(summary)
    yield from _differences(summary)


def _warnings(summary: Summary) -> Iterator[str]:
    if summary.warnings or not summary.complete:
        yield ""
    if not summary.complete:
        yield "> **Warning:** not every item is rated yet; the numbers will change."
    for position, warning in enumerate(summary.warnings):
        if position or not summary.complete:
            yield ">"
        yield f"> **Warning:** {safe_markdown(warning)}"


def _results(found: Sequence[Group]) -> Iterator[str]:
    titles = ("Reward model", "View", "Accuracy", "95%", "Over none", "Over swapped", "Oracle gap closed", "Ties")
    rows = [(group.rm, row.label, *_figures(row)) for group in found for row in group.rows]
    yield from markdown_table(Table(titles=(*titles, "Unscored", "n"), words=2, rows=rows))


def _figures(row: Row) -> Iterator[str]:
    result = row.result
    yield percent(result.accuracy)
    yield percent_interval(result.low, result.high)
    yield _marked(row.over_none)
    yield _marked(row.over_stranger)
    yield percent(result.oracle_gap_closed.value if result.oracle_gap_closed else None)
    yield from (f"{number:,}" for number in (result.ties, result.unscored, result.n))


def _marked(gain: Gain | None) -> str:
    if gain is None:
        return ABSENT
    return points(gain.gain) + ("*" if gain.q < CLEAR else "")


def _over_baseline(summary: Summary) -> Iterator[str]:
    if not summary.over_baseline:
        return
    yield from ("", "## Against the impersonal model", "", f"A better model or not. {NO_PERSONAL_GAIN}", "")
    rows = [
        (one.rm, one.view, one.than, one.known, points(one.difference), *_sure(one), f"{one.users:,}", f"{one.n:,}")
        for one in summary.over_baseline
    ]
    titles = ("Reward model", "View", "Minus", "Known", "Difference", "95%", "q", "Users", "n")
    yield from markdown_table(Table(titles=titles, words=4, rows=rows))


def _gains(summary: Summary) -> Iterator[str]:
    if not summary.gains:
        return
    yield from ("", "## Gains", "")
    rows = [(one.rm, one.view, one.over, points(one.gain), *_sure(one), f"{one.users:,}") for one in summary.gains]
    titles = ("Reward model", "View", "Over", "Gain", "95%", "q", "Users")
    yield from markdown_table(Table(titles=titles, words=3, rows=rows))


def _differences(summary: Summary) -> Iterator[str]:
    found = telling_differences(summary)
    if not found:
        return
    yield from ("", "## Differences between models", "")
    rows = [(one.view, one.rm, one.than, points(one.difference), *_sure(one), f"{one.users:,}") for one in found]
    titles = ("View", "Reward model", "Minus", "Difference", "95%", "q", "Users")
    yield from markdown_table(Table(titles=titles, words=3, rows=rows))


def _sure(one: Gain | Difference | OverBaseline) -> tuple[str, str]:
    return points_interval(one.low, one.high), chance_of_error(one.q)
