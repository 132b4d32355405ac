"""What every command that measures shows: a bar while it runs, and its result at the end."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from palate.cli._arguments import SAYS
from palate.report import make_console, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from palate.cli._options import GeneralOptions, LoggedRunOptions
    from palate.report import Document, Table
    from palate.runs import Estimate, Logger, RunSummary

EVERY = 10.0
"""Seconds between two lines where there is no terminal to draw in."""
RECENT = 4
"""Lines over which the speed is measured."""
Settings = ParamSpec("Settings")
SummaryType = TypeVar("SummaryType", bound="RunSummary")


class ProgressLines:
    """Progress where there is no terminal, as in a log: a line every ten seconds, with the time left.

    How long it takes to begin says nothing about the rest: models are loaded in that time.

    >>> now = iter([0.0, 1.0, 31.0, 37.0, 47.0])
    >>> progress = ProgressLines(print, clock=lambda: next(now))
    >>> for done in (0, 1, 4, 10.5):
    ...     progress("rating", done, 40)
    rating: 1 of 40
    rating: 10.5 of 40, 50 s left
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._told = clock()
        self._marks: deque[tuple[float, float]] = deque(maxlen=RECENT)
        """When how much was done: at the first step of the present count, and at the last lines."""
        self._start, self._done, self._total = 0.0, 0.0, 0

    def __call__(self, what: str, done: float, total: int) -> None:
        """Told what is being done, how much of it is done, and how much there is."""
        now = self._clock()
        if total != self._total or done < self._done:
            self._start, self._total = done, total
            self._marks.clear()
        self._done = done
        if done > self._start and not self._marks:
            self._marks.append((now, done))
        if now - self._told < EVERY:
            return
        self._told = now
        began, before = self._marks[0] if self._marks else (now, done)
        left = f", {_duration((now - began) / (done - before) * (total - done))} left" if done > before else ""
        self._say(f"{what}: {done:,.{0 if done == int(done) else 1}f} of {total:,}{left}")
        if self._marks:
            self._marks.append((now, done))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Bar:
    """Progress on standard error: told what is being done, how much of it is done, and how much there is."""

    def __init__(self, report: Callable[[str, float, int], None], console: Console | None) -> None:
        self._report, self._console = report, console

    def __call__(self, what: str, done: float, total: int) -> None:
        self._report(what, done, total)

    def say(self, table: Table) -> None:
        """Print a table above the bar; nothing where no progress is shown."""
        if self._console is not None:
            print_table(table, self._console)


@contextmanager
def progress_bar(*, show: bool = True) -> Iterator[Bar]:
    """Progress while something runs: a bar in a terminal, elsewhere a line every ten seconds."""
    console = make_console(stderr=True)
    columns = (  # how much is done and left comes first; what is being done takes the room that remains
        BarColumn(20),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("left", table_column=Column(no_wrap=True)),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
    )
    show = show and SAYS["progress"]
    if show and not console.is_terminal:
        lines = ProgressLines(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
        yield Bar(lines, console)
        return
    with Progress(*columns, console=console, transient=True, expand=True, disable=not show) as bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: float, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield Bar(report, console if show else None)


def print_json(value: object, *, indent: int = 0, addresses: bool = True) -> None:
    """Print one JSON object, and nothing else, on standard output; folders of a bucket by their addresses."""
    import msgspec

    from palate.records import escaped_json
    from palate.storage import with_addresses

    text = msgspec.json.encode(value)
    said = (msgspec.json.format(text, indent=indent) if indent else text).decode()
    sys.stdout.write(escaped_json(with_addresses(said) if addresses else said) + "\n")


def show(summary: RunSummary, *, json: bool, users: bool = True) -> None:
    """Write the report of a run; print its tables for a person, or the object for a program."""
    print_report(summary, write_report(summary, users=users), json=json, users=users)


def write_report(summary: RunSummary, *, users: bool = True) -> Document:
    """Write the report of a run into its folder."""
    from palate.runs import open_run, report_of

    return report_of(open_run(Path(summary.run), check=False), summary, users=users)  # its lines were checked before


def print_report(summary: RunSummary, document: Document, *, json: bool, users: bool = True) -> None:
    """Print what `write_report` wrote. Not under a progress bar: it would draw itself into the tables."""
    from palate.runs import open_run, summary_fields

    run = open_run(Path(summary.run), check=False)
    if json:
        return print_json(summary_fields(run, summary if users else run.experiment.without_users(summary)))
    from palate.report import print_document
    from palate.storage import url_of

    console = make_console()
    print_document(document, console)
    console.print()
    page = url_of(run.folder / "report.html") or (run.folder / "report.html").resolve().as_uri()
    console.print("Report:", page, markup=False, highlight=False, soft_wrap=True)
    return None


def measure_and_show(
    run: LoggedRunOptions, measure: Callable[Settings, SummaryType], *args: Settings.args, **kwargs: Settings.kwargs
) -> SummaryType | None:
    """Measure with a bar, write the report of the run, print it, and log it where that was asked for.

    Nothing comes back from a dry run, which only says what the run would take.
    """
    from palate.records import PalateError
    from palate.runs import forecasting, measure_on_cluster, require_workers
    from palate.storage import url_in_path

    loggers = loggers_of(run)
    if getattr(run, "dry_run", False):
        _dry_run(run, measure, *args, **kwargs)
        return None
    with progress_bar(show=not run.json) as progress, forecasting(partial(_foretold, progress)):
        if cluster := getattr(run, "cluster", None):
            if url_in_path(run.out):
                raise PalateError(
                    "--cluster needs an --out that all machines share as a folder. Into a bucket, measure with --shard "
                    "on each machine, then merge"
                )
            if getattr(run, "shard", None):
                raise PalateError("--cluster makes the shards itself; leave out --shard")
        given: dict[str, Any] = {**kwargs, **run.given, "progress": progress}
        if cluster:
            summary = measure_on_cluster(cluster, getattr(run, "workers", None), measure, *args, **given)
        else:
            require_workers(None, getattr(run, "workers", None))
            summary = measure(*args, **given)
        progress("writing the report", 0, 1)
        document = write_report(summary)
    print_report(summary, document, json=run.json)
    if shard := getattr(run, "shard", None):
        of, name = shard.strip().partition("/")[2], Path(summary.run).name
        out = url_in_path(run.out) or run.out
        print(  # noqa: T201
            f"palate: shard {shard.strip()} is done. When all are: palate merge {out}/shard-*-of-{of}/{name} "
            f"--out {out}",
            file=sys.stderr,
        )
    log(summary, loggers)
    return summary


LONG = 60.0
"""Seconds from which a run is long, so that it is said what is to come."""


def _foretold(bar: Bar, estimate: Estimate) -> None:
    from palate.runs import estimate_table

    if estimate.seconds >= LONG or estimate.paid:
        bar.say(estimate_table(estimate))


def _dry_run(run: LoggedRunOptions, measure: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what a run would take."""
    from palate.records import PalateError
    from palate.runs import estimate_table, rehearse

    with progress_bar(show=not run.json) as progress:
        progress("rehearsing one item", 0, 1)
        estimate = rehearse(measure, *args, **{**kwargs, **run.given})
    if estimate is None:
        raise PalateError("a run of this kind cannot say what it would take; leave out --dry-run")
    if run.json:
        return print_json(estimate)
    return print_table(estimate_table(estimate), make_console())


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
            out=run.folder,
            data_dir=run.data,
            progress=progress,
        )
    write_general(found, folder)
    if not run.json:
        print_document(general_document(found), make_console())
