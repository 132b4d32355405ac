"""The files of a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.downstream._ppo._markdown import ppo_markdown
from palate.downstream._ppo._page import ppo_page
from palate.downstream._ppo._results import PpoSummary
from palate.evaluate import write_whole
from palate.records import PalateError


def write_ppo(summary: PpoSummary) -> Path:
    """Write report.html, report.md and summary.json into the run folder; the page's path comes back."""
    folder = Path(summary.run)
    page = folder / "report.html"
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    try:
        write_whole(page, ppo_page(summary).encode("utf-8", "replace"))
        write_whole(folder / "report.md", ppo_markdown(summary).encode("utf-8", "replace"))
        write_whole(folder / "summary.json", encoded)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return page
