"""The parts of a report in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding

from palate.downstream._report._head import Head
from palate.evaluate import Finding, Table, findings_grid, printable, terminal_table


def print_head(head: Head, console: Console) -> None:
    """What was measured, and whether all of it is there."""
    title = printable(head.summary.benchmark_title, console, "bold")
    title.append_text(printable(f"  {head.size}", console, "dim"))
    console.print(title)
    console.print(printable(head.set_up, console))
    if not head.summary.complete:
        console.print(printable(head.unfinished, console))


def print_section(table: Table, console: Console) -> None:
    """A table under its title."""
    console.print()
    console.print(printable(table.title, console, "bold"))
    console.print(Padding(terminal_table(table, console), (0, 0, 0, 2)))


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """What the numbers say, below them."""
    if findings:
        console.print()
        console.print(findings_grid((one.severity, printable(one.text, console)) for one in findings))
