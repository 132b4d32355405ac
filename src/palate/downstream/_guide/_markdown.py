"""A guided run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._best_of_n._markdown import _table
from palate.downstream._guide._results import GuideSummary
from palate.downstream._guide._tables import (
    ACCURACY_NOTE,
    TEXT_NOTE,
    accuracy_tables,
    detail_table,
    difference_table,
    headline,
    interval_table,
    set_up,
    text_tables,
)
from palate.evaluate import safe_markdown


def guide_markdown(summary: GuideSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: GuideSummary) -> Iterator[str]:
    yield f"# Guided decoding: {safe_markdown(summary.benchmark_title)}"
    said = f"{headline(summary)}; benchmark {summary.benchmark}, hash {summary.benchmark_hash}."
    yield from ("", safe_markdown(said), "", safe_markdown(set_up(summary)))
    if not summary.complete:
        yield from ("", "> **Warning:** not everything is read, written and marked yet; the numbers will change.")
    yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.text)}" for finding in summary.findings)
    for tables, note in ((list(accuracy_tables(summary)), ACCURACY_NOTE), (list(text_tables(summary)), TEXT_NOTE)):
        for table in tables:
            yield from _table(table)
        if tables:
            yield from ("", safe_markdown(note))
    for more in filter(None, (interval_table(summary), detail_table(summary), difference_table(summary))):
        yield from _table(more)
