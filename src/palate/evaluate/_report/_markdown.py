"""The report as Markdown, for an issue, a pull request or a paper's appendix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from palate.evaluate._report._groups import Group, Row, groups, telling_differences
from palate.evaluate._report._numbers import (
    CLEAR,
    chance_of_error,
    count,
    percent,
    percent_interval,
    points,
    points_interval,
)
from palate.evaluate._report._reading import readings
from palate.evaluate._results import Gain, Summary

_SPECIAL = re.compile(r"([\\`*_\[\]|~$]|^[#+\-=]|(?<=^\d)[.)])")
_FOOTNOTE = (
    "Gains are in percentage points; * marks q < .05, the false discovery rate held over all gains of the run. "
    "A tie counts its fair share and an unscored item counts neither way. Intervals are 95% and resample users."
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
    yield from ("", _FOOTNOTE)
    yield from _over_baseline(summary)
    yield from _gains(summary)
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
    yield from _head(
        "Reward model", "View", "Accuracy", "95%", "Over none", "Over swapped", "Oracle gap closed", "Ties",
        "Unscored", "n", words=2,
    )  # fmt: skip
    for group in found:
        for row in group.rows:
            yield _line(safe_markdown(group.rm), safe_markdown(row.label), *_figures(row))


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
        return "–"
    return points(gain.gain) + (r"\*" if gain.q < CLEAR else "")


def _over_baseline(summary: Summary) -> Iterator[str]:
    if not summary.over_baseline:
        return
    yield from ("", "## Over the impersonal model", "")
    yield from _head("Reward model", "View", "Minus", "Known", "Difference", "95%", "q", "Users", "n", words=4)
    for found in summary.over_baseline:
        interval, q = points_interval(found.low, found.high), chance_of_error(found.q)
        names = (safe_markdown(found.rm), safe_markdown(found.view), safe_markdown(found.than), found.known)
        yield _line(*names, points(found.difference), interval, _entity(q), f"{found.users:,}", f"{found.n:,}")


def _gains(summary: Summary) -> Iterator[str]:
    if not summary.gains:
        return
    yield from ("", "## Gains", "")
    yield from _head("Reward model", "View", "Over", "Gain", "95%", "q", "Users", words=3)
    for gain in summary.gains:
        interval, q = points_interval(gain.low, gain.high), chance_of_error(gain.q)
        names = (safe_markdown(gain.rm), safe_markdown(gain.view), safe_markdown(gain.over))
        yield _line(*names, points(gain.gain), interval, _entity(q), f"{gain.users:,}")


def _differences(summary: Summary) -> Iterator[str]:
    if not telling_differences(summary):
        return
    yield from ("", "## Differences between models", "")
    yield from _head("View", "Reward model", "Minus", "Difference", "95%", "q", "Users", words=3)
    for found in telling_differences(summary):
        interval, q = points_interval(found.low, found.high), chance_of_error(found.q)
        names = (safe_markdown(found.view), safe_markdown(found.rm), safe_markdown(found.than))
        yield _line(*names, points(found.difference), interval, _entity(q), f"{found.users:,}")


def _head(*titles: str, words: int) -> Iterator[str]:
    yield _line(*titles)
    yield _line(*("---" if position < words else "---:" for position in range(len(titles))))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def safe_markdown(text: str) -> str:
    """Text that stays on its line and means nothing to Markdown or HTML."""
    flat = " ".join(text.split())
    escaped = _SPECIAL.sub(r"\\\1", flat)
    return _entity(escaped.replace("&", "&amp;")).replace(">", "&gt;").replace("@", "&#64;")


def _entity(text: str) -> str:
    return text.replace("<", "&lt;")
