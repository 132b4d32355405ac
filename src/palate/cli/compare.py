"""`palate compare`: which differences between runs are real."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from palate.cli._options import IN_BUCKET, Flag, JsonOption, Resample

if TYPE_CHECKING:
    from rich.console import Console

    from palate.evaluation import RunComparison

JSON = JsonOption()


def compare(
    runs: Annotated[list[Path], Parameter(negative=""), IN_BUCKET],
    /,
    *,
    controls: Flag = False,
    resample: Resample = "auto",
    seed: NonNegativeInt = 0,
    options: JsonOption = JSON,
) -> None:
    """Compare the models of two runs or more. Evaluations are paired on the items that all of them rated.

    Runs of other kinds stand beside each other in the same tables, without a test.

    Parameters
    ----------
    runs
        Run folders of the same benchmark, at least two of a kind; `latest` is the newest in `runs`.
    controls
        Compare controls with each other, too.
    resample
        What the intervals are about: new users, or new users and new items. `auto` adds items where users judge the
        same ones.
    seed
        Seed of the resamples.
    """
    from palate.cli._show import print_json
    from palate.leaderboard import beside_document, compare_runs
    from palate.report import make_console, print_document, printable
    from palate.runs import runs_to_read
    from palate.storage import with_addresses

    found = compare_runs(runs_to_read(runs), seed=seed, resample=resample, controls=controls)
    if options.json:
        return print_json(found.paired if found.paired and not found.beside and not found.alone else found)
    console = make_console()
    if found.paired:
        _print_paired(found.paired, console)
    for beside in found.beside:
        print_document(beside_document(beside), console)
    for line in [*(found.paired.unmatched if found.paired else ()), *found.alone]:
        console.print(printable(with_addresses(f"Not compared: {line}"), console), highlight=False)
    return None


def _print_paired(found: RunComparison, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from palate.evaluation import few_carry
    from palate.report import printable

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("view", "model", "against"):
        table.add_column(title, overflow="fold")
    for title in ("difference\n95% interval", "q", ""):
        table.add_column(title, justify="right", no_wrap=True)
    same = [row for row in found.differences if row.difference == 0 and row.p == 1]
    for row in found.differences:
        if row in same:
            continue
        interval = "" if row.low is None or row.high is None else f"{100 * row.low:+.1f} to {100 * row.high:+.1f}"
        if row.n < found.items:
            interval += f"\n{row.n:,} items"
        verdict = Text("real", style="bold green") if row.q < 0.05 else Text("not shown", style="dim")
        if row.q < 0.05 and few_carry(row.carried_by, row.users):
            verdict.append(f", but not without {row.carried_by} of {row.users} users", style="yellow")
        words = (row.view, *(_by_hash(name, found.runs) for name in (row.rm, row.than)))
        numbers = (f"{100 * row.difference:+.1f}\n{interval}", f"{row.q:.3f}")
        table.add_row(*(Text(_in_lines(printable(word, console).plain)) for word in words), *numbers, verdict)
    which = "both" if len(found.runs) == 2 else f"all {len(found.runs)}"
    console.print(f"{found.items} items of {found.users} users that {which} runs hold", highlight=False)
    if any(row.n < found.items for row in found.differences):
        console.print("Each difference is on the items that both models scored.", highlight=False)
    console.print(table)
    if same:
        console.print(f"{len(same)} more that do not differ at all", style="dim", highlight=False)
    console.print(
        f"Points of accuracy; 95% intervals resample {found.resampled}; real: q < 0.05 with the false discovery rate "
        "held over this table.",
        style="dim",
        highlight=False,
    )


def _in_lines(label: str) -> str:
    """Broken where a reader would, so that a narrow terminal does not break it within a word.

    >>> _in_lines("swapped:judgements:4+demographics")
    'swapped:\\njudgements:4+\\ndemographics'
    """
    return label.replace("+", "+\n").replace("swapped:", "swapped:\n").replace(" (", "\n(")


def _by_hash(label: str, runs: Sequence[str]) -> str:
    """A model's name with its run; of runs of one name, what tells them apart is enough.

    >>> _by_hash("embedding (mini-6cdd259813)", ["mini-6cdd259813", "mini-946125bb07"])
    'embedding (6cdd259813)'
    """
    names = [Path(run).name for run in runs]
    for name in names if len({name.rpartition("-")[0] for name in names}) == 1 else ():
        label = label.replace(f"({name})", f"({name.rpartition('-')[2]})")
    return label
