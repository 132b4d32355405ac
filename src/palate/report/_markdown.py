"""The parts of a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.report._head import Head
from palate.report._table import Table, markdown_table, safe_markdown


def markdown_head(head: Head, benchmark: str) -> Iterator[str]:
    """What was measured on which benchmark, and what it says."""
    summary = head.summary
    yield f"# {head.name}: {safe_markdown(summary.benchmark_title)}"
    yield from ("", safe_markdown(f"{head.size}; {benchmark}, hash {summary.benchmark_hash}."))
    yield from ("", safe_markdown(head.set_up))
    if not summary.complete:
        yield from ("", f"> **Warning:** {head.unfinished[0].lower()}{head.unfinished[1:]}")
    yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.text)}" for finding in summary.findings)


def markdown_section(table: Table) -> Iterator[str]:
    """A table under a heading of its own."""
    yield from ("", f"## {safe_markdown(table.title)}", "", *markdown_table(table))
