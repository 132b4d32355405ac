"""The audit in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from palate.audit._document import Document, Section, Table
from palate.audit._results import Finding
from palate.evaluate import printable

_STYLES = {"warning": "bold yellow", "note": "cyan", "good": "green"}
INDENT = (0, 0, 0, 2)
ROOMY = 90
"""Columns of a terminal from which tables are set wide."""


def print_document(document: Document, console: Console) -> None:
    """Print the verdict first, then what it rests on."""
    title = printable(document.title, console, "bold")
    title.append_text(printable(f"  {document.size}", console, "dim"))
    console.print(title)
    console.print()
    console.print(_findings(document.findings, console))
    for section in document.sections:
        _print_section(section, console)
    console.print()
    console.print(printable(document.footnote, console, "dim"))


def _findings(findings: list[Finding], console: Console) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        text = printable(finding.text, console)
        if finding.advice:
            text.append_text(printable(f" {finding.advice}", console, "dim"))
        grid.add_row(Text(finding.severity, style=_STYLES[finding.severity]), text)
    return grid


def _print_section(section: Section, console: Console) -> None:
    console.print()
    console.print(printable(section.title, console, "bold"))
    if section.table:
        console.print(Padding(_grid(section.table, console), INDENT))
    for note in section.notes:
        console.print(Padding(printable(note, console), INDENT))


def _grid(table: Table, console: Console) -> Grid:
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, 2 if console.width >= ROOMY else 1, 0, 0),
        header_style="dim",
        show_header=any(table.titles),
    )
    for position, title in enumerate(table.titles):
        numbers = position >= table.words
        grid.add_column(
            title.replace(" ", "\n") if numbers else title,
            justify="right" if numbers else "left",
            no_wrap=numbers,
            overflow="fold",
            vertical="top",
        )
    for row in table.rows:
        grid.add_row(*(printable(cell, console) for cell in row))
    return grid
