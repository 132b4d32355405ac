"""The files of a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.downstream._best_of_n._markdown import best_of_n_markdown
from palate.downstream._best_of_n._page import best_of_n_page
from palate.downstream._best_of_n._results import BonSummary
from palate.evaluate import write_whole
from palate.records import PalateError


def write_best_of_n(summary: BonSummary) -> Path:
    """Write report.html, report.md and summary.json into the run folder; the page's path comes back."""
    folder = Path(summary.run)
    page = folder / "report.html"
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    try:
        write_whole(page, best_of_n_page(summary).encode("utf-8", "replace"))
        write_whole(folder / "report.md", best_of_n_markdown(summary).encode("utf-8", "replace"))
        write_whole(folder / "summary.json", encoded)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return page
