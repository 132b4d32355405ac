"""The files of a report."""

from __future__ import annotations

from pathlib import Path

from palate.downstream.guide._markdown import guide_markdown
from palate.downstream.guide._page import guide_page
from palate.downstream.guide._results import GuideSummary
from palate.runs import write_report


def write_guide(summary: GuideSummary) -> Path:
    """Write report.html, report.md and summary.json into the run folder; the page's path comes back."""
    return write_report(Path(summary.run), summary, guide_page(summary), guide_markdown(summary))
