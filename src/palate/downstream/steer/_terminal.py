"""The table of steering in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as Grid

from palate.downstream._personal import personal_table
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._tables import FOOTNOTE, head, main_table
from palate.report import ROOMY, Table, print_findings, print_head, print_section, printable

NARROWEST = 14
"""Columns of a terminal that a method's name has at least."""


def print_steer(summary: SteerSummary, console: Console) -> None:
    """Print the table and what it says."""
    print_head(head(summary), console)
    console.print()
    console.print(_grid(main_table(summary), console))
    console.print(printable(FOOTNOTE, console, "dim"))
    gains = personal_table(summary.personal)
    if gains is not None:
        print_section(gains, console)
    print_findings(summary.findings, console)


def _grid(table: Table, console: Console) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2 if console.width >= ROOMY else 1, 0, 0), header_style="dim")
    for position, title in enumerate(table.titles):
        numbers = position >= table.words
        grid.add_column(
            title,
            justify="right" if numbers else "left",
            no_wrap=numbers,
            overflow="fold",
            min_width=None if numbers else NARROWEST,
            vertical="bottom" if numbers else "top",
        )
    for label, *cells in table.rows:
        shown = []
        for cell in cells:
            value, _, interval = cell.partition("\n")
            text = printable(value if value.endswith("*") else f"{value} ", console)
            text.append("\n").append_text(printable(f"{interval} ", console, "dim"))
            shown.append(text)
        grid.add_row(printable(label, console), *shown)
    return grid
