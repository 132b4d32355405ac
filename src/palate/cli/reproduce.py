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
    """Run a published experiment and set our figures beside the paper's, by the paper's metric and by votes.

    Run the same command again to resume; `palate report` reads the run folder of the methods named in the table.

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
    from palate.personal import REPRODUCTIONS, accuracy_lines, gain_lines, headroom_lines
    from palate.personal import reproduce as run

    with progress_bar(show=not json) as progress:
        reached = run(experiment, seed=seed, out=out, data_dir=data, progress=progress)
    wanted = REPRODUCTIONS[experiment]
    if json:
        sys.stdout.write(msgspec.json.encode({"experiment": wanted, "reached": reached}).decode() + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(wanted.title, style="bold", markup=False)
    console.print(wanted.source, style="dim", markup=False)
    for first, lines in (("accuracy", accuracy_lines(wanted, reached)), ("gain in points", gain_lines(reached))):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(first)
        for title in ("paper's metric", "over 50 known", "share of votes", "over 50 known"):
            table.add_column(title, justify="right", no_wrap=True)
        for line in lines:
            table.add_row(*line)
        console.print()
        console.print(table)
    console.print()
    console.print("Paper's metric: mean over sides of the mean over voters with two strict votes there.", style="dim")
    console.print("Intervals are 95% and hold for new voters and new sides.", style="dim")
    for sentence in headroom_lines(reached.headroom):
        console.print(sentence, markup=False, highlight=False)
    console.print("Chosen within the training sides, and for how many sides:", style="dim")
    for what, count in reached.chosen:
        console.print(f"  {count:2} {what}", markup=False, style="dim", highlight=False)
    console.print(f"Run: {reached.run}", markup=False, style="dim", highlight=False)
