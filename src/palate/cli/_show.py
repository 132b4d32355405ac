"""What every command that measures prints at its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palate.runs import RunSummary


def print_json(value: object, *, indent: int = 0) -> None:
    """Print one JSON object, and nothing else, on standard output."""
    import msgspec

    text = msgspec.json.encode(value)
    sys.stdout.write((msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n")


def show(summary: RunSummary, *, json: bool, users: bool = True) -> None:
    """Write the report of a run; print its tables for a person, or the object for a program."""
    from palate.runs import open_run, write_report

    run = open_run(Path(summary.run))
    document = write_report(run, summary, users=users)
    if json:
        return print_json(summary if users else run.experiment.without_users(summary))
    from rich.console import Console

    from palate.report import print_document

    console = Console()
    print_document(document, console)
    console.print()
    page = (run.folder / "report.html").resolve().as_uri()
    console.print("Report:", page, markup=False, highlight=False, soft_wrap=True)
    return None
