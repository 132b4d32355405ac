"""A best-of-N run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._tables import (
    FOOTNOTE,
    difference_table,
    head,
    reward_tables,
    sample_table,
    score_tables,
)
from palate.downstream._personal import personal_table, view_table
from palate.report import markdown_head, markdown_section, safe_markdown


def best_of_n_markdown(summary: BonSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: BonSummary) -> Iterator[str]:
    yield from markdown_head(head(summary), f"benchmark {summary.benchmark}")
    for table in score_tables(summary):
        yield from markdown_section(table)
    yield from ("", safe_markdown(FOOTNOTE))
    more_tables = (
        personal_table(summary.personal),
        *reward_tables(summary),
        difference_table(summary),
        sample_table(summary),
        view_table(summary.shown),
    )
    for more in filter(None, more_tables):
        yield from markdown_section(more)
