"""The files of a report."""

from __future__ import annotations

from pathlib import Path

from palate.downstream.steer._markdown import steer_markdown
from palate.downstream.steer._page import steer_page
from palate.downstream.steer._results import SteerSummary
from palate.runs import write_report


def write_steer(summary: SteerSummary) -> Path:
    """Write report.html, report.md and summary.json into the table's folder; the page's path comes back."""
    return write_report(Path(summary.run), summary, steer_page(summary), steer_markdown(summary))
