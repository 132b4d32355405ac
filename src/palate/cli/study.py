"""`palate study`: run a plan, and say what predicts what."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from palate.cli._options import DataOptions, Flag, Many
from palate.cli._show import EVERY
from palate.report import make_console

if TYPE_CHECKING:
    from rich.console import Console

    from palate.study import Cell

DATA = DataOptions()


def study(
    plan: Path,
    /,
    *,
    at_once: int = 1,
    cluster: str | None = None,
    workers: int | None = None,
    only: Many = None,
    model: Many = None,
    check: Flag = False,
    out: Path = Path("runs"),
    options: DataOptions = DATA,
) -> None:
    """Score many reward models on benchmarks, put them to use, and say which number predicts what happens.

    The plan is checked whole before anything runs. A cell that fails is reported and does not stop the others. Run the
    same command again to go on; `palate report` recomputes all numbers from the raw ratings.

    Parameters
    ----------
    plan
        A TOML file: reward models and views, benchmarks, uses, seeds.
    at_once
        Number of cells that run side by side, each in a process of its own.
    cluster
        Run cells on the workers of a Ray cluster: `ray` for workers on this machine, `auto` or `ray://host:port`.
    workers
        Number of workers on the cluster [default: one for each GPU, else one for each core].
    only
        Run the cells of this measure only; may be repeated. The others wait for a later call.
    model
        Run the cells of this reward model only, by its name in the plan; may be repeated.
    check
        Check the plan, list its cells, and run nothing.
    out
        Folder in which run folders are made.
    """
    from palate.cli._show import print_json, show
    from palate.study import asked_cells, check_plan, read_plan
    from palate.study import study as measure

    if check:
        read = read_plan(plan)
        check_plan(read, plan, options.data)
        cells = asked_cells(read, only, model)
        if options.json:
            return print_json({"cells": [cell.name for cell in cells]})
        return _list(cells)
    with _watching(show=not options.json) as watch:
        summary = measure(
            plan,
            out=out,
            at_once=at_once,
            cluster=cluster,
            workers=workers,
            only=only,
            models=model,
            watch=watch,
            **options.given,
        )
    return show(summary, json=options.json)


def _list(cells: Sequence[Cell]) -> None:
    console = make_console()
    measures = [cell.measure or "train" for cell in cells]
    table = Table("measure", "cells", box=None, header_style="bold", pad_edge=False)
    for measure in dict.fromkeys(measures):
        table.add_row(Text(measure), str(measures.count(measure)))
    console.print(table)
    console.print(f"The plan is sound: {len(cells)} cells. Without --check it runs.")


class _Watch:
    """A live table: how many cells of each measure are done, what runs, and how long it may take."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console, self._live = console, live
        self._cells: Sequence[Cell] = ()
        self._left: dict[str, int] = {}
        self._seconds: dict[str, list[float]] = {}
        self._failed: dict[str, int] = {}
        self._running: dict[str, float] = {}
        self._most_at_once = 1
        self._now = ""
        self._told = time.monotonic()

    def planned(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """All cells, and those that were finished before."""
        self._cells = cells
        names = {cell.name for cell in done}
        for cell in cells:
            self._left[cell.measure] = self._left.get(cell.measure, 0) + (cell.name not in names)
        if done and self._live is None:
            self._console.print(f"{len(done)} of {len(cells)} cells are there", markup=False)
        self._draw()

    def begun(self, cell: Cell) -> None:
        """A cell starts."""
        self._running[cell.name] = time.monotonic()
        self._most_at_once = max(self._most_at_once, len(self._running))
        self._draw()

    def ended(self, cell: Cell, seconds: float, failed: str | None) -> None:
        """A cell is finished, or failed."""
        self._running.pop(cell.name, None)
        self._left[cell.measure] -= 1
        self._seconds.setdefault(cell.measure, []).append(seconds)
        self._now = ""
        if failed:
            self._failed[cell.measure] = self._failed.get(cell.measure, 0) + 1
        if failed or self._live is None:
            what = f"FAILED: {failed}" if failed else "done"
            self._print(f"{cell.name}: {what} ({seconds:.1f} s{self._time_left()})")
        self._draw()

    def progress(self, what: str, done: float, total: int) -> None:
        """What the running cell is doing."""
        self._now = f"{what}, {int(done):,} of {total:,}"
        if self._live is None and time.monotonic() - self._told >= EVERY:
            self._print(self._caption().plain)
        self._draw()

    def _print(self, what: str) -> None:
        """A line, where there is no table, with how many cells are done."""
        self._told = time.monotonic()
        done = len(self._cells) - sum(self._left.values())
        self._console.print(f"{done}/{len(self._cells)} {what}", markup=False, soft_wrap=True)

    def _time_left(self) -> str:
        """Of measures that have been timed, over all that is left; nothing before the first cell is done."""
        times = [one for some in self._seconds.values() for one in some]
        if not times or not sum(self._left.values()):
            return ""
        usual = sum(times) / len(times)
        left = sum(
            count * (sum(self._seconds[name]) / len(self._seconds[name]) if self._seconds.get(name) else usual)
            for name, count in self._left.items()
        )
        return f", about {_duration(left / self._most_at_once)} left"

    def _draw(self) -> None:
        if self._live is None:
            return
        table = Table(
            "measure", "done", "of", "failed", "mean", title_justify="left", box=None, header_style="bold",
            pad_edge=False, caption=self._caption(), caption_justify="left",
        )  # fmt: skip
        measures = [cell.measure for cell in self._cells]
        for measure in dict.fromkeys(measures):
            times = self._seconds.get(measure, [])
            total = measures.count(measure)
            table.add_row(
                Text(measure or "train"),
                str(total - self._left[measure]),
                str(total),
                str(self._failed.get(measure, "")),
                _duration(sum(times) / len(times)) if times else "",
            )
        self._live.update(table)

    def _caption(self) -> Text:
        running = "; ".join(self._running)
        return Text(f"now: {running or 'starting'}{f' ({self._now})' if self._now else ''}{self._time_left()}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _watching(*, show: bool) -> Iterator[_Watch]:
    console = make_console(stderr=True, quiet=not show)
    if not (show and console.is_terminal):
        yield _Watch(console, None)
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield _Watch(console, live)
