"""A best-of-N run in a terminal, read at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._tables import FOOTNOTE, Table, headline, reward_tables, score_tables, set_up
from palate.evaluate import printable

ROOMY = 100
"""Columns of a terminal from which tables are set wide."""
_STYLES = {"warning": "bold yellow", "note": "cyan", "good": "green"}


def print_best_of_n(summary: BonSummary, console: Console) -> None:
    """Print the scores for each policy view, the rewards, and what they say."""
    title = printable(summary.benchmark_title, console, "bold")
    title.append_text(printable(f"  {headline(summary)}", console, "dim"))
    console.print(title)
    console.print(printable(set_up(summary), console))
    if not summary.complete:
        console.print(printable("Not everything is drawn, rated and marked yet; the numbers will change.", console))
    for table in (*score_tables(summary), *reward_tables(summary)):
        console.print()
        console.print(printable(table.title, console, "bold"))
        console.print(Padding(_grid(table, console), (0, 0, 0, 2)))
    console.print()
    console.print(printable(FOOTNOTE, console, "dim"))
    if summary.findings:
        console.print()
        console.print(findings_grid(summary.findings, console))


def _grid(table: Table, console: Console) -> Grid:
    """A table as a terminal shows it."""
    grid = Grid(box=None, pad_edge=False, padding=(0, 2 if console.width >= ROOMY else 1, 0, 0), header_style="dim")
    for position, title in enumerate(table.titles):
        numbers = position >= table.words
        grid.add_column(
            title.replace("over ", "over\n").replace("oracle's ", "oracle's\n"),
            justify="right" if numbers else "left",
            no_wrap=numbers,
            overflow="fold",
            vertical="bottom",
        )
    for row in table.rows:
        grid.add_row(*(printable(cell, console) for cell in row))
    return grid


class Finding(Protocol):
    """What a reader should know, in words."""

    @property
    def severity(self) -> str: ...
    @property
    def text(self) -> str: ...


def findings_grid(findings: Sequence[Finding], console: Console) -> Grid:
    """Findings one under the other."""
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        grid.add_row(Text(finding.severity, style=_STYLES[finding.severity]), printable(finding.text, console))
    return grid
