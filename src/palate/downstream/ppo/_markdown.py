"""A training run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._items import view_table
from palate.downstream._personal import personal_table
from palate.downstream.ppo._results import PpoSummary
from palate.downstream.ppo._tables import curve_table, footnote, head, held_out_table, parts_table, view_scores_table
from palate.report import markdown_head, markdown_section, safe_markdown


def ppo_markdown(summary: PpoSummary) -> str:
    """Findings, then both tables, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: PpoSummary) -> Iterator[str]:
    yield from markdown_head(head(summary), summary.benchmark)
    held_out = held_out_table(summary)
    if held_out is not None:
        yield from markdown_section(held_out)
        tables = (
            view_scores_table(summary),
            personal_table(summary.personal),
            parts_table(summary),
            view_table(summary.shown),
        )
        for table in filter(None, tables):
            yield from markdown_section(table)
        yield from ("", safe_markdown(footnote(summary)))
    yield from markdown_section(curve_table(summary))
