"""`palate runs`: what lies in a folder of runs."""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import Folder, JsonOption

JSON = JsonOption()


def runs(folder: Folder = Path("runs"), /, *, options: JsonOption = JSON) -> None:
    """List the runs of a folder, the newest first: kind, last change, whether each is complete, and models.

    Parameters
    ----------
    folder
        Folder that holds run folders, here or in a bucket.
    """
    from rich.console import Console
    from rich.table import Table

    from palate.cli._show import print_json, progress_bar
    from palate.leaderboard import list_runs
    from palate.report import printable
    from palate.runs import run_to_read
    from palate.storage import with_addresses

    with progress_bar(show=not options.json) as progress:
        found = list_runs(run_to_read(folder), progress=progress)
    if options.json:
        return print_json(found)
    console = Console(highlight=False)
    table = Table("run", "kind", "last change", "complete", "models", box=None, header_style="bold", pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True  # a name is there to be copied; it begins with that of the benchmark
    table.columns[0].overflow = table.columns[-1].overflow = "fold"
    for run in found:
        models = ", ".join(run.models[:4]) + (f" and {len(run.models) - 4} more" if len(run.models) > 4 else "")
        state = "cannot be read" if run.fault else {True: "yes", False: "no", None: "–"}[run.complete]
        cells = (
            Path(run.run).name,
            run.kind or "–",
            run.date[:16].replace("T", " "),
            state,
            models,
        )
        table.add_row(*(printable(cell, console) for cell in cells))
    console.print(table)
    for run in found:
        if run.fault:
            console.print(printable(with_addresses(run.fault), console))
    return None
