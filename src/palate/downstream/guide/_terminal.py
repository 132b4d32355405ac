"""A guided run in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console

from palate.downstream._personal import personal_table
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._tables import ACCURACY_NOTE, TEXT_NOTE, accuracy_tables, head, text_tables
from palate.report import print_findings, print_head, print_section, printable


def print_guide(summary: GuideSummary, console: Console) -> None:
    """Print policy accuracy, what was written, and what they say."""
    print_head(head(summary), console)
    for tables, note in ((list(accuracy_tables(summary)), ACCURACY_NOTE), (list(text_tables(summary)), TEXT_NOTE)):
        for table in tables:
            print_section(table, console)
        if tables:
            console.print(printable(note, console, "dim"))
    gains = personal_table(summary.personal)
    if gains is not None:
        print_section(gains, console)
    print_findings(summary.findings, console)
