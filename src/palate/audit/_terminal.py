"""The audit in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from palate.audit._document import Document, Section
from palate.audit._results import Finding
from palate.report import findings_grid, printable, terminal_table

INDENT = (0, 0, 0, 2)
ROOMY = 90
"""Columns of a terminal from which tables are set wide."""


def print_document(document: Document, console: Console) -> None:
    """Print the verdict first, then what it rests on."""
    title = printable(document.title, console, "bold")
    title.append_text(printable(f"  {document.size}", console, "dim"))
    console.print(title)
    console.print()
    console.print(findings_grid((one.severity, _said(one, console)) for one in document.findings))
    for section in document.sections:
        _print_section(section, console)
    console.print()
    console.print(printable(document.footnote, console, "dim"))


def _said(finding: Finding, console: Console) -> Text:
    text = printable(finding.text, console)
    if finding.advice:
        text.append_text(printable(f" {finding.advice}", console, "dim"))
    return text


def _print_section(section: Section, console: Console) -> None:
    console.print()
    console.print(printable(section.title, console, "bold"))
    if section.table:
        console.print(Padding(terminal_table(section.table, console, roomy=ROOMY, vertical="top"), INDENT))
    for note in section.notes:
        console.print(Padding(printable(note, console), INDENT))
