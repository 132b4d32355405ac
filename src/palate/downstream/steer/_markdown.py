"""The table of steering as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from palate.downstream._personal import personal_table, view_table
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._tables import FOOTNOTE, difference_table, head, main_table, parts_table
from palate.report import Table, markdown_head, markdown_section, safe_markdown


def steer_markdown(summary: SteerSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: SteerSummary) -> Iterator[str]:
    yield from markdown_head(head(summary), f"benchmark {summary.benchmark}")
    yield from markdown_section(_in_one_line(main_table(summary)))
    yield from ("", safe_markdown(FOOTNOTE))
    tables = (
        personal_table(summary.personal),
        difference_table(summary),
        view_table(summary.shown),
        parts_table(summary),
    )
    for table in filter(None, tables):
        yield from markdown_section(table)


def _in_one_line(table: Table) -> Table:
    """Markdown has no second line in a cell: the interval stands in brackets."""
    return msgspec.structs.replace(
        table,
        rows=[tuple(cell.replace("\n", " (") + (")" if "\n" in cell else "") for cell in row) for row in table.rows],
    )
