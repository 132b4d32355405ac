"""A best-of-N run in a terminal, read at a glance."""

from __future__ import annotations

from rich.console import Console

from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._tables import FOOTNOTE, head, reward_tables, score_tables
from palate.downstream._personal import personal_table
from palate.report import print_findings, print_head, print_section, printable


def print_best_of_n(summary: BonSummary, console: Console) -> None:
    """Print the scores for each policy view, what the user's own view brings, the rewards, and what they say."""
    print_head(head(summary), console)
    for table in filter(None, (*score_tables(summary), personal_table(summary.personal), *reward_tables(summary))):
        print_section(table, console)
    console.print()
    console.print(printable(FOOTNOTE, console, "dim"))
    print_findings(summary.findings, console)
