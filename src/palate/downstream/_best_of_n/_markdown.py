"""A best-of-N run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._tables import (
    FOOTNOTE,
    Table,
    difference_table,
    headline,
    reward_tables,
    sample_table,
    score_tables,
    set_up,
)
from palate.evaluate import safe_markdown


def best_of_n_markdown(summary: BonSummary) -> str:
    """Findings, then every table, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: BonSummary) -> Iterator[str]:
    yield f"# Best of {summary.drawn}: {safe_markdown(summary.benchmark_title)}"
    yield from (
        "",
        safe_markdown(f"{headline(summary)}; benchmark {summary.benchmark}, hash {summary.benchmark_hash}."),
    )
    yield from ("", safe_markdown(set_up(summary)))
    if not summary.complete:
        yield from ("", "> **Warning:** not everything is drawn, rated and marked yet; the numbers will change.")
    yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.text)}" for finding in summary.findings)
    for table in score_tables(summary):
        yield from _table(table)
    yield from ("", safe_markdown(FOOTNOTE))
    differences = difference_table(summary)
    for table in (*reward_tables(summary), *([differences] if differences else []), sample_table(summary)):
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    """A table under a heading of its own."""
    yield from ("", f"## {safe_markdown(table.title)}", "", _line([safe_markdown(title) for title in table.titles]))
    yield _line(["---" if position < table.words else "---:" for position in range(len(table.titles))])
    yield from (_line([safe_markdown(cell) for cell in row]) for row in table.rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
