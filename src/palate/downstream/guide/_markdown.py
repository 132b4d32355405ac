"""A guided run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._items import view_table
from palate.downstream._personal import personal_table
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._tables import (
    ACCURACY_NOTE,
    TEXT_NOTE,
    accuracy_tables,
    detail_table,
    difference_table,
    head,
    interval_table,
    text_tables,
)
from palate.report import markdown_head, markdown_section, safe_markdown


def guide_markdown(summary: GuideSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: GuideSummary) -> Iterator[str]:
    yield from markdown_head(head(summary), f"benchmark {summary.benchmark}")
    for tables, note in ((list(accuracy_tables(summary)), ACCURACY_NOTE), (list(text_tables(summary)), TEXT_NOTE)):
        for table in tables:
            yield from markdown_section(table)
        if tables:
            yield from ("", safe_markdown(note))
    more_tables = (
        personal_table(summary.personal),
        interval_table(summary),
        detail_table(summary),
        difference_table(summary),
        view_table(summary.shown),
    )
    for more in filter(None, more_tables):
        yield from markdown_section(more)
