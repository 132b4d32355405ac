"""A guided run in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding

from palate.downstream._best_of_n._terminal import _grid, findings_grid
from palate.downstream._guide._results import GuideSummary
from palate.downstream._guide._tables import (
    ACCURACY_NOTE,
    TEXT_NOTE,
    accuracy_tables,
    headline,
    set_up,
    text_tables,
)
from palate.evaluate import printable


def print_guide(summary: GuideSummary, console: Console) -> None:
    """Print policy accuracy, what was written, and what they say."""
    title = printable(summary.benchmark_title, console, "bold")
    title.append_text(printable(f"  {headline(summary)}", console, "dim"))
    console.print(title)
    console.print(printable(set_up(summary), console))
    if not summary.complete:
        console.print(printable("Not everything is read, written and marked yet; the numbers will change.", console))
    for tables, note in ((list(accuracy_tables(summary)), ACCURACY_NOTE), (list(text_tables(summary)), TEXT_NOTE)):
        for table in tables:
            console.print()
            console.print(printable(table.title, console, "bold"))
            console.print(Padding(_grid(table, console), (0, 0, 0, 2)))
        if tables:
            console.print(printable(note, console, "dim"))
    if summary.findings:
        console.print()
        console.print(findings_grid(summary.findings, console))
