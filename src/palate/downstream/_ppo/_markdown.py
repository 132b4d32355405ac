"""A training run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._best_of_n._markdown import _table
from palate.downstream._ppo._results import PpoSummary
from palate.downstream._ppo._tables import FOOTNOTE, curve_table, headline, held_out_table, set_up
from palate.evaluate import safe_markdown


def ppo_markdown(summary: PpoSummary) -> str:
    """Findings, then both tables, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: PpoSummary) -> Iterator[str]:
    yield f"# {summary.algorithm.upper()}: {safe_markdown(summary.benchmark_title)}"
    yield from ("", safe_markdown(f"{headline(summary)}; {summary.benchmark}, hash {summary.benchmark_hash}."))
    yield from ("", safe_markdown(set_up(summary)))
    if not summary.complete:
        yield from ("", "> **Warning:** training or judging is not over yet; the numbers will change.")
    yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.text)}" for finding in summary.findings)
    held_out = held_out_table(summary)
    if held_out is not None:
        yield from _table(held_out)
        yield from ("", safe_markdown(FOOTNOTE))
    yield from _table(curve_table(summary))
