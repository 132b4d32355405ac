"""The files of a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.downstream._steer._markdown import steer_markdown
from palate.downstream._steer._page import steer_page
from palate.downstream._steer._results import SteerSummary
from palate.evaluate import write_whole
from palate.records import PalateError


def write_steer(summary: SteerSummary) -> Path:
    """Write report.html, report.md and summary.json into the table's folder; the page's path comes back."""
    folder = Path(summary.run)
    page = folder / "report.html"
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    try:
        write_whole(page, steer_page(summary).encode("utf-8", "replace"))
        write_whole(folder / "report.md", steer_markdown(summary).encode("utf-8", "replace"))
        write_whole(folder / "summary.json", encoded)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return page
