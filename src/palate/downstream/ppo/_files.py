"""The files of a report."""

from __future__ import annotations

from pathlib import Path

from palate.downstream.ppo._markdown import ppo_markdown
from palate.downstream.ppo._page import ppo_page
from palate.downstream.ppo._results import PpoSummary
from palate.runs import write_report


def write_ppo(summary: PpoSummary) -> Path:
    """Write report.html, report.md and summary.json into the run folder; the page's path comes back."""
    return write_report(Path(summary.run), summary, ppo_page(summary), ppo_markdown(summary))
