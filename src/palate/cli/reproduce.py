"""`palate reproduce`: published figures, and ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt


def reproduce(
    experiment: str,
    /,
    *,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a published experiment, one ingredient at a time, and set our figures beside the paper's.

    The same command goes on where it stopped; every run folder it makes can be read with `palate report`.

    Parameters
    ----------
    experiment
        `convarg`: which of two arguments convinces this voter, 32 debate sides left out in turn.
    seed
        Decides inner splits, starting values and resamples.
    out
        The folder in which run folders are made.
    data
        Where data sets lie that palate does not ship. Default: the environment variable PALATE_DATA.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    import sys

    import msgspec

    from palate.cli._progress import progress_bar
    from palate.personal import REPRODUCTIONS, reproduction_lines
    from palate.personal import reproduce as run

    with progress_bar(show=not json) as progress:
        reached = run(experiment, seed=seed, out=out, data_dir=data, progress=progress)
    wanted = REPRODUCTIONS[experiment]
    if json:
        sys.stdout.write(msgspec.json.encode({"experiment": wanted, "reached": reached}).decode() + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    table.add_column("model")
    for title in ("accuracy, all users (95%)", "over 50 known (95%)"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in reproduction_lines(wanted, reached):
        table.add_row(*line)
    console = Console()
    console.print(wanted.title, style="bold", markup=False)
    console.print(wanted.source, style="dim", markup=False)
    console.print()
    console.print(table)
    console.print()
    console.print("Intervals are 95% and resample users. Runs:", markup=False, style="dim")
    for folder in dict.fromkeys(one.run for one in reached):
        console.print(f"  {folder}", markup=False, style="dim", highlight=False)
