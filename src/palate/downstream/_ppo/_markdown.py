"""A training run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._ppo._results import PpoSummary
from palate.downstream._ppo._tables import curve_table, footnote, head, held_out_table, parts_table
from palate.downstream._report import markdown_head, markdown_section
from palate.evaluate import safe_markdown


def ppo_markdown(summary: PpoSummary) -> str:
    """Findings, then both tables, in a form that any Markdown reader takes."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: PpoSummary) -> Iterator[str]:
    yield from markdown_head(head(summary), summary.benchmark)
    held_out = held_out_table(summary)
    if held_out is not None:
        yield from markdown_section(held_out)
        parts = parts_table(summary)
        if parts is not None:
            yield from markdown_section(parts)
        yield from ("", safe_markdown(footnote(summary)))
    yield from markdown_section(curve_table(summary))
