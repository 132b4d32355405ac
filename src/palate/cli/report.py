"""`palate report`: every number anew from a run folder, without the model."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from palate.evaluate import Run, Summary


def report(
    run: Path,
    /,
    *,
    read_again: Annotated[bool, Parameter(negative="")] = False,
    without_users: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make the table and the report page of a run anew from its raw ratings; no model is needed.

    Parameters
    ----------
    run
        A run folder, as `palate eval` names it at its end.
    read_again
        Read verdicts and grades anew from what the models wrote, with today's readers.
    without_users
        Leave out everything about single users, in all files and in the JSON: items, profiles, ids, accuracies.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    from palate.evaluate import Run, summarise
    from palate.evaluate import without_users as anonymous

    training = partial(ppo_reported, without_users=without_users)
    others = (best_of_n_reported, guide_reported, training, steer_reported)
    if any(reported(run, read_again=read_again, json=json) for reported in others):
        return
    opened = Run.open(run)
    summary = summarise(opened, again=read_again)
    if without_users:
        summary = anonymous(summary)
    show(summary, write_reports(opened, summary, users=not without_users), json=json)


def best_of_n_reported(folder: Path, *, read_again: bool, json: bool) -> bool:
    """Make the report of a best-of-N run anew; False where the folder is a run of another kind."""
    from palate.cli.bon import show as show_best_of_n
    from palate.downstream import BonRun, summarise_best_of_n, write_best_of_n
    from palate.records import PalateError

    if not BonRun.is_one(folder):
        return False
    if read_again:
        raise PalateError(f"{folder} is a best-of-N run, whose ratings cannot be read again; leave out --read-again")
    summary = summarise_best_of_n(BonRun.open(folder))
    show_best_of_n(summary, write_best_of_n(summary), json=json)
    return True


def guide_reported(folder: Path, *, read_again: bool, json: bool) -> bool:
    """Make the report of a guided run anew; False where the folder is a run of another kind."""
    from palate.cli.guide import show as show_guide
    from palate.downstream import GuideRun, summarise_guide, write_guide
    from palate.records import PalateError

    if not GuideRun.is_one(folder):
        return False
    if read_again:
        raise PalateError(f"{folder} is a guided run, whose ratings cannot be read again; leave out --read-again")
    summary = summarise_guide(GuideRun.open(folder))
    show_guide(summary, write_guide(summary), json=json)
    return True


def ppo_reported(folder: Path, *, read_again: bool, json: bool, without_users: bool = False) -> bool:
    """Make the report of a training run anew; False where the folder is a run of another kind."""
    import msgspec

    from palate.cli.ppo import show as show_ppo
    from palate.downstream import PpoRun, summarise_ppo, write_ppo
    from palate.records import PalateError

    if not PpoRun.is_one(folder):
        return False
    if read_again:
        raise PalateError(f"{folder} is a training run, whose ratings cannot be read again; leave out --read-again")
    summary = summarise_ppo(PpoRun.open(folder))
    if without_users:
        summary = msgspec.structs.replace(summary, examples=[])
    show_ppo(summary, write_ppo(summary), json=json)
    return True


def steer_reported(folder: Path, *, read_again: bool, json: bool) -> bool:
    """Make the table of steering anew from the runs beside it; False where the folder is a run of another kind."""
    from palate.cli.steer import show as show_steer
    from palate.downstream import SteerRun, summarise_steer, write_steer
    from palate.records import PalateError

    if not SteerRun.is_one(folder):
        return False
    if read_again:
        raise PalateError(f"{folder} is a table of other runs; read them again one by one, and leave out --read-again")
    summary = summarise_steer(SteerRun.open(folder))
    show_steer(summary, write_steer(summary), json=json)
    return True


def write_reports(run: Run, summary: Summary, *, users: bool = True) -> Path:
    """Write every form of the report into the run folder; the page's path comes back."""
    from palate.evaluate import write_reports as write

    return write(run, summary, users=users)


def show(summary: Summary, page: Path, *, json: bool) -> None:
    """The table for a person, or the object for a program."""
    import msgspec

    if json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return
    from rich.console import Console

    from palate.evaluate import render_terminal

    console = Console()
    render_terminal(summary, console)
    console.print()
    console.print("Report:", page.resolve().as_uri(), markup=False, highlight=False, soft_wrap=True)
