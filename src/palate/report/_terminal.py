"""The parts of a report in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding

from palate.report._findings import Finding, findings_grid
from palate.report._head import Head
from palate.report._printable import printable
from palate.report._table import Table, terminal_table

INDENT = 2
NARROWEST = 8
"""Columns of a terminal that words under a heading have at least."""


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
    if table.headings:
        _print_under_headings(table, console)
    else:
        console.print(Padding(terminal_table(table, console), (0, 0, 0, INDENT)))


def _print_under_headings(table: Table, console: Console) -> None:
    """The first column above its rows. Tables of one heading each share their widths, so that they read as one."""
    columns = [max(map(cell_len, column)) for column in zip(table.titles, *table.rows, strict=True)][1:]
    too_wide = 2 * INDENT + sum(columns) + len(columns) - console.width
    columns[0] = max(NARROWEST, columns[0] - max(0, too_wide))

    def grid(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Padding:
        part = Table(titles=titles[1:], words=table.words - 1, rows=[row[1:] for row in rows])
        shown = terminal_table(part, console, roomy=console.width + 1)
        for column, width in zip(shown.columns, columns, strict=True):
            column.width = width
        return Padding(shown, (0, 0, 0, 2 * INDENT))

    console.print(grid(table.titles, ()))
    for heading, rows in groupby(table.rows, key=itemgetter(0)):
        console.print(Padding(printable(heading, console), (0, 0, 0, INDENT)))
        console.print(grid(("",) * len(table.titles), rows))


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """What the numbers say, below them."""
    if findings:
        console.print()
        console.print(findings_grid((one.severity, printable(one.text, console)) for one in findings))
