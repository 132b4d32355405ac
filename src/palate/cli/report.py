"""`palate report`: every number from a run folder, without the model."""

from __future__ import annotations

import sys
from pathlib import Path

from palate.cli._options import Flag, Folder, JsonOption, Resample
from palate.records import printable

JSON = JsonOption()


def report(
    run: Folder,
    /,
    *,
    read_again: Flag = False,
    resample: Resample = "auto",
    without_users: Flag = False,
    repair: Flag = False,
    options: JsonOption = JSON,
) -> None:
    """Recompute the tables and the report page of a run from its raw ratings. No model is needed.

    Parameters
    ----------
    run
        A run folder, as `palate eval` prints it at the end; `latest` is the newest in `runs`, and
        `s3://bucket/runs/latest` that in a bucket, to which the report is written too.
    read_again
        Read verdicts and grades again from what the models wrote, with the current readers.
    resample
        What the intervals are about: new users, or new users and new items. `auto` adds items where users judge the
        same ones. Reports on texts that policies wrote resample users.
    without_users
        Leave out everything about single users, in all files and in the JSON: items, profiles, ids, accuracies.
    repair
        First drop the lines that cannot be read and what depends on them, and print how many from which file. They are
        kept beside it, in a file that ends in `.bad`. Run the command of the run again to fill in what is missing.
    """
    from palate.cli._show import show
    from palate.records import PalateError
    from palate.runs import Reading, open_run, put_reports, run_to_read, run_to_write

    named, run = run, run_to_write(run) if repair else run_to_read(run)
    if repair:
        _repair(run)
    opened = open_run(run)
    experiment = opened.experiment
    if repair and not experiment.has_report:
        return
    if read_again and "read_again" not in experiment.options:
        raise PalateError(
            f"{run} is a run of {experiment.command}, whose ratings cannot be read again; leave out --read-again"
        )
    if resample == "users-and-items" and "resample" not in experiment.options:
        raise PalateError(f"{run} is a run of {experiment.command}, whose intervals resample users only")
    summary = experiment.summarise(opened, Reading(read_again=read_again, resample=resample))
    show(summary, json=options.json, users=not without_users)
    if not repair:
        put_reports(named, run)


def _repair(folder: Path) -> None:
    """Repair a folder and say on standard error what was dropped."""
    from palate.report import count
    from palate.runs import repair_run

    dropped = repair_run(folder)
    for lost in dropped:
        said = [f"{count(lost.bad, 'line')} that cannot be read"] if lost.bad else []
        said += [f"{count(lost.orphans, 'line')} made from lost lines"] if lost.orphans else []
        _say(f"dropped from {lost.file}: {' and '.join(said)}; kept in {Path(lost.file).name}.bad")
    _say("run the command that made it again to restore what is missing" if dropped else "every line can be read")


def _say(text: str) -> None:
    from palate.storage import with_addresses

    print(printable(with_addresses(f"palate: {text}")), file=sys.stderr)  # noqa: T201
