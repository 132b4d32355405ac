"""The table of steering as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from palate.downstream._best_of_n._markdown import _table
from palate.downstream._best_of_n._tables import Table
from palate.downstream._steer._results import SteerSummary
from palate.downstream._steer._tables import FOOTNOTE, difference_table, headline, main_table, parts_table, set_up
from palate.evaluate import safe_markdown


def steer_markdown(summary: SteerSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: SteerSummary) -> Iterator[str]:
    yield f"# Steering: {safe_markdown(summary.benchmark_title)}"
    about = f"{headline(summary)}; benchmark {summary.benchmark}, hash {summary.benchmark_hash}."
    yield from ("", safe_markdown(about), "", safe_markdown(set_up(summary)))
    if not summary.complete:
        yield from ("", "> **Warning:** not every part is done yet; the numbers will change.")
    yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.text)}" for finding in summary.findings)
    yield from _table(_in_one_line(main_table(summary)))
    yield from ("", safe_markdown(FOOTNOTE))
    for table in filter(None, (difference_table(summary), parts_table(summary))):
        yield from _table(table)


def _in_one_line(table: Table) -> Table:
    """Markdown has no second line in a cell: the interval stands in brackets."""
    return msgspec.structs.replace(
        table,
        rows=[tuple(cell.replace("\n", " (") + (")" if "\n" in cell else "") for cell in row) for row in table.rows],
    )
