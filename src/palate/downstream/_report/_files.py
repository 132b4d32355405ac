"""The files of a report, the same for every kind of run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.evaluate import write_whole
from palate.records import PalateError


def write_report(folder: Path, summary: msgspec.Struct, page: str, markdown: str) -> Path:
    """Write report.html, report.md and summary.json into a folder; the page's path comes back."""
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    try:
        write_whole(folder / "report.html", page.encode("utf-8", "replace"))
        write_whole(folder / "report.md", markdown.encode("utf-8", "replace"))
        write_whole(folder / "summary.json", encoded)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return folder / "report.html"
