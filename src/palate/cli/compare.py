"""`palate compare`: which differences between two runs are real."""

from __future__ import annotations

from pathlib import Path

from cyclopts.types import NonNegativeInt

from palate.cli._options import JsonOption, Resample

JSON = JsonOption()


def compare(
    first: Path,
    second: Path,
    /,
    *,
    resample: Resample = "auto",
    seed: NonNegativeInt = 0,
    options: JsonOption = JSON,
) -> None:
    """Compare every model of one run with every model of another, on the items that both rated.

    Parameters
    ----------
    first
        A run folder.
    second
        Another run folder of the same benchmark.
    resample
        What the intervals are about: new users, or new users and new items. `auto` adds items where users judge the
        same ones.
    seed
        Seed of the resamples.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from palate.cli._show import print_json
    from palate.evaluation import compare as pair
    from palate.evaluation import few_carry

    found = pair(first, second, seed=seed, resample=resample)
    if options.json:
        return print_json(found)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("view", "model", "against"):
        table.add_column(title, overflow="fold")
    for title in ("difference", "95% interval", "q", ""):
        table.add_column(title, justify="right", no_wrap=True)
    same = [row for row in found.differences if row.difference == 0 and row.p == 1]
    for row in found.differences:
        if row in same:
            continue
        interval = "" if row.low is None or row.high is None else f"{100 * row.low:+.1f} to {100 * row.high:+.1f}"
        verdict = Text("real", style="bold green") if row.q < 0.05 else Text("not shown", style="dim")
        if row.q < 0.05 and few_carry(row.carried_by, row.users):
            verdict.append(f", but not without {row.carried_by} of {row.users} users", style="yellow")
        numbers = (f"{100 * row.difference:+.1f}", interval, f"{row.q:.3f}")
        table.add_row(Text(row.view), Text(row.rm), Text(row.than), *numbers, verdict)
    console = Console()
    console.print(f"{found.items} items of {found.users} users that both runs rated", highlight=False)
    console.print(table)
    if same:
        console.print(f"{len(same)} more that do not differ at all", style="dim", highlight=False)
    console.print(
        f"Points of accuracy; 95% intervals resample {found.resampled}; real: q < 0.05 with the false discovery rate "
        "held over this table.",
        style="dim",
        highlight=False,
    )
    return None
