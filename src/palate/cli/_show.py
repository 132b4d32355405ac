"""What every command that measures prints at its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palate.runs import RunSummary


def show(summary: RunSummary, *, json: bool, users: bool = True) -> None:
    """Write the report of a run; print its tables for a person, or the object for a program."""
    import msgspec

    from palate.runs import open_run, write_report

    run = open_run(Path(summary.run))
    document = write_report(run, summary, users=users)
    if json:
        shown = summary if users else run.experiment.without_users(summary)
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
        return
    from rich.console import Console

    from palate.report import print_document

    console = Console()
    print_document(document, console)
    console.print()
    page = (run.folder / "report.html").resolve().as_uri()
    console.print("Report:", page, markup=False, highlight=False, soft_wrap=True)
