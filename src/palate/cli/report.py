"""`palate report`: every number anew from a run folder, without the model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def report(
    run: Path,
    /,
    *,
    read_again: Annotated[bool, Parameter(negative="")] = False,
    resample: Literal["auto", "users", "users-and-items"] = "auto",
    without_users: Annotated[bool, Parameter(negative="")] = False,
    repair: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make the table and the report page of a run anew from its raw ratings; no model is needed.

    Parameters
    ----------
    run
        A run folder, as `palate eval` names it at its end.
    read_again
        Read verdicts and grades anew from what the models wrote, with today's readers.
    resample
        What the intervals are about: new users, or new users and new items. By default also items, where users
        judge the same ones. Reports on texts that policies wrote resample users.
    without_users
        Leave out everything about single users, in all files and in the JSON: items, profiles, ids, accuracies.
    repair
        First drop the lines that cannot be read and what was made from them, and say how many of which file. They are
        kept beside it, in a file that ends in `.bad`. The command that made the run makes anew what is missing.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    from palate.cli._show import show
    from palate.evaluation import Run, print_evaluation, summarise, write_reports
    from palate.evaluation import without_users as anonymous

    if repair and repaired(run):
        return
    if of_texts_reported(run, read_again=read_again, resample=resample, without_users=without_users, json=json):
        return
    opened = Run.open(run)
    summary = summarise(opened, again=read_again, resample=resample)
    if without_users:
        summary = anonymous(summary)
    show(summary, write_reports(opened, summary, users=not without_users), print_evaluation, json=json)


def repaired(folder: Path) -> bool:
    """Repair a folder and say on standard error what was dropped; True where it is no run, and has no report."""
    from palate.downstream import is_samples
    from palate.downstream import repair as drop
    from palate.report import count

    dropped = drop(folder)
    for lost in dropped:
        said = [f"{count(lost.bad, 'line')} that cannot be read"] if lost.bad else []
        said += [f"{count(lost.orphans, 'line')} made from lost lines"] if lost.orphans else []
        _say(f"dropped from {lost.file}: {' and '.join(said)}; kept in {Path(lost.file).name}.bad")
    _say("run the command that made it again to make anew what is missing" if dropped else "every line can be read")
    return is_samples(folder)


def _say(text: str) -> None:
    print(f"palate: {text}", file=sys.stderr)  # noqa: T201


def of_texts_reported(folder: Path, *, read_again: bool, resample: str, without_users: bool, json: bool) -> bool:
    """Make the report of a run about what policies wrote anew; False where the folder is a run of another kind."""
    import msgspec

    from palate import downstream
    from palate.cli._show import show
    from palate.records import PalateError

    kinds: list[tuple[Any, str]] = [
        (downstream.BonRun, "best_of_n"),
        (downstream.GuideRun, "guide"),
        (downstream.PpoRun, "ppo"),
        (downstream.SteerRun, "steer"),
    ]
    for run, name in kinds:
        if not run.is_one(folder):
            continue
        if read_again:
            raise PalateError(
                f"{folder} is a run of {run.made_by}, whose ratings cannot be read again; leave out --read-again"
            )
        if resample == "users-and-items":
            raise PalateError(f"{folder} is a run of {run.made_by}, whose intervals resample users only")
        summarise, write, printed = (getattr(downstream, f"{verb}_{name}") for verb in ("summarise", "write", "print"))
        summary = summarise(run.open(folder))
        if without_users and hasattr(summary, "examples"):
            summary = msgspec.structs.replace(summary, examples=[])
        show(summary, write(summary), printed, json=json)
        return True
    return False
