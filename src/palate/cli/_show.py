"""What every command that measures shows: a bar while it runs, and its result at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from palate.cli._arguments import SAYS
from palate.report import make_console

if TYPE_CHECKING:
    from palate.cli._options import GeneralOptions, LoggedRunOptions
    from palate.runs import Logger, RunSummary

EVERY = 10.0
"""Seconds between two lines where there is no terminal to draw in."""
Settings = ParamSpec("Settings")
SummaryType = TypeVar("SummaryType", bound="RunSummary")


class ProgressLines:
    """Progress where there is no terminal, as in a log: a line every ten seconds, with the time left.

    >>> now = iter([0.0, 1.0, 4.0, 11.0])
    >>> progress = ProgressLines(print, clock=lambda: next(now))
    >>> for done in (0, 4, 10):
    ...     progress("rating", done, 40)
    rating: 10 of 40, 30 s left
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._told = clock()
        self._first: tuple[float, int] | None = None
        """When the present count began, and where."""
        self._total = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Told what is being done, how much of it is done, and how much there is."""
        now = self._clock()
        if self._first is None or total != self._total or done < self._first[1]:
            self._first, self._total = (now, done), total
        if now - self._told < EVERY:
            return
        self._told = now
        began, before = self._first
        left = f", {_duration((now - began) / (done - before) * (total - done))} left" if done > before else ""
        self._say(f"{what}: {done:,} of {total:,}{left}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_bar(*, show: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function that is told what is being done, how much of it is done, and how much there is."""
    console = make_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    show = show and SAYS["progress"]
    if show and not console.is_terminal:
        yield ProgressLines(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
        return
    with Progress(*columns, console=console, transient=True, disable=not show) as bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


def print_json(value: object, *, indent: int = 0) -> None:
    """Print one JSON object, and nothing else, on standard output."""
    import msgspec

    from palate.records import escaped_json

    text = msgspec.json.encode(value)
    sys.stdout.write(escaped_json((msgspec.json.format(text, indent=indent) if indent else text).decode()) + "\n")


def show(summary: RunSummary, *, json: bool, users: bool = True) -> None:
    """Write the report of a run; print its tables for a person, or the object for a program."""
    from palate.runs import open_run, report_of

    run = open_run(Path(summary.run), check=False)  # the summary was made of lines that were checked
    document = report_of(run, summary, users=users)
    if json:
        return print_json(summary if users else run.experiment.without_users(summary))
    from palate.report import print_document

    console = make_console()
    print_document(document, console)
    console.print()
    page = (run.folder / "report.html").resolve().as_uri()
    console.print("Report:", page, markup=False, highlight=False, soft_wrap=True)
    return None


def measure_and_show(
    run: LoggedRunOptions, measure: Callable[Settings, SummaryType], *args: Settings.args, **kwargs: Settings.kwargs
) -> SummaryType:
    """Measure with a bar, write the report of the run, print it, and log it where that was asked for."""
    from palate.records import PalateError
    from palate.runs import measure_on_cluster

    loggers = loggers_of(run)
    with progress_bar(show=not run.json) as progress:
        given: dict[str, Any] = {**kwargs, **run.given, "progress": progress}
        if cluster := getattr(run, "cluster", None):
            if getattr(run, "shard", None):
                raise PalateError("--cluster makes the shards itself; leave out --shard")
            summary = measure_on_cluster(cluster, getattr(run, "workers", None), measure, *args, **given)
        elif getattr(run, "workers", None) is not None:
            raise PalateError("--workers is the number of workers on a cluster: add --cluster ray, or leave it out")
        else:
            summary = measure(*args, **given)
        progress("writing the report", 0, 1)
        show(summary, json=run.json)
    if shard := getattr(run, "shard", None):
        of, name = shard.strip().partition("/")[2], Path(summary.run).name
        print(  # noqa: T201
            f"palate: shard {shard.strip()} is done. When all are: palate merge {run.out}/shard-*-of-{of}/{name} "
            f"--out {run.out}",
            file=sys.stderr,
        )
    log(summary, loggers)
    return summary


def loggers_of(run: LoggedRunOptions) -> dict[str, Logger]:
    """What --log names; a missing package, or a part of a run, is said before anything is measured."""
    from palate.records import PalateError
    from palate.runs import make_loggers

    if run.log and getattr(run, "shard", None):
        raise PalateError(
            "--log logs whole runs, and --shard measures a part of one. Join the shards with palate merge, then run "
            "the same command with --log and without --shard: it measures nothing again"
        )
    return make_loggers(run.log or [])


def log(summary: RunSummary, loggers: dict[str, Logger]) -> None:
    """Log the numbers of a run, and say on standard error where they are."""
    if not loggers:
        return
    from palate.runs import log_run, open_run

    for place in log_run(open_run(Path(summary.run), check=False), summary, loggers):
        print(f"Logged to {place}", file=sys.stderr)  # noqa: T201


def show_general(
    general: GeneralOptions, run: LoggedRunOptions, folder: str, benchmark: str, models: Sequence[str]
) -> None:
    """Measure general quality with the views of a run, keep it there as general.json, and print it."""
    if general.general is None:
        return
    from palate.audit import general_document, measure_general, write_general
    from palate.evaluation import EVALUATION
    from palate.report import make_console, print_document
    from palate.runs import open_run

    views = [view.name for view in open_run(Path(folder), EVALUATION).settings.views if view.is_profile]
    with progress_bar(show=not run.json) as progress:
        found = measure_general(
            benchmark,
            general.general,
            models,
            views,
            margin=general.margin,
            users=general.general_users,
            pairs=general.general_pairs,
            seed=run.seed,
            out=run.out,
            data_dir=run.data,
            progress=progress,
        )
    write_general(found, folder)
    if not run.json:
        print_document(general_document(found), make_console())
