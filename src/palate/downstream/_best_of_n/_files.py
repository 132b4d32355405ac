"""The files of a report."""

from __future__ import annotations

from pathlib import Path

from palate.downstream._best_of_n._markdown import best_of_n_markdown
from palate.downstream._best_of_n._page import best_of_n_page
from palate.downstream._best_of_n._results import BonSummary
from palate.runs import write_report


def write_best_of_n(summary: BonSummary) -> Path:
    """Write report.html, report.md and summary.json into the run folder; the page's path comes back."""
    return write_report(Path(summary.run), summary, best_of_n_page(summary), best_of_n_markdown(summary))
