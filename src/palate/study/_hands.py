"""Who runs the cells of a study: this process, several processes of this machine, or the workers of a cluster."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from palate.records import PalateError, current_command, describe_error, running_command
from palate.runs import AnotherWriterError, Lost, Pool, Progress, Work, no_progress
from palate.study._cells import Benchmarks, Cell, Workplace, run_cell
from palate.study._plan import Plan

KILLED = "its process was ended from outside, perhaps for want of memory (exit code {code})"


class Watcher(Protocol):
    """Who is told how a study goes."""

    def planned(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """All cells, and those that were finished before."""

    def begun(self, cell: Cell) -> None:
        """A cell starts or goes on."""

    def ended(self, cell: Cell, seconds: float, failed: str | None) -> None:
        """A cell is finished, or failed for this reason."""

    def progress(self, what: str, done: float, total: int, /) -> None:
        """What the running cell is doing where one runs at a time, else how many workers are at one."""


class Silent:
    """Tells nobody."""

    progress = staticmethod(no_progress)

    def planned(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """Nothing to tell."""

    def begun(self, cell: Cell) -> None:
        """Nothing to tell."""

    def ended(self, cell: Cell, seconds: float, failed: str | None) -> None:
        """Nothing to tell."""


class Ended(NamedTuple):
    """How a cell ended."""

    run: str
    failed: str | None
    seconds: float
    device: str
    in_use: bool = False
    """Whether another cell was writing to the same run: two cells may be one run on a benchmark where they see the
    same."""


class Hands(Protocol):
    """Whoever runs cells."""

    several: bool
    """Whether cells run side by side, so that one may find its run in use."""

    def run(self, cells: Sequence[Cell], watch: Watcher, *, keep: bool) -> Iterator[tuple[Cell, Ended]]:
        """Run all cells; each comes back when it has ended. `keep` says that more will come."""


class Here:
    """This process, one cell after another."""

    several = False

    def __init__(self, plan: Plan, place: Workplace, benchmarks: Benchmarks | None = None) -> None:
        self.plan, self.place = plan, place
        self._benchmarks = benchmarks or Benchmarks(place.data)

    def run(self, cells: Sequence[Cell], watch: Watcher, *, keep: bool) -> Iterator[tuple[Cell, Ended]]:
        """In their order."""
        for cell in cells:
            watch.begun(cell)
            yield cell, self.run_one(cell, watch.progress)

    def run_one(self, cell: Cell, progress: Progress) -> Ended:
        """Run a cell, or say why it failed."""
        started = time.monotonic()
        run, failed, in_use = "", None, False
        try:
            run = run_cell(self.plan, cell, self.place, self._benchmarks, progress)
        except PalateError as error:
            failed, in_use = str(error), isinstance(error, AnotherWriterError)
        except Exception as error:
            failed = describe_error(error)
        if cuda := _cuda():  # others may use the same GPU
            gc.collect()
            cuda.empty_cache()
        return Ended(run, failed, time.monotonic() - started, _device(), in_use)


def _cuda() -> Any:
    """torch's door to the GPU, as far as torch was used and there is one."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def _device() -> str:
    """What cells ran on."""
    cuda = _cuda()
    return str(cuda.get_device_name()) if cuda else "CPU"


# ---- Processes of this machine --------------------------------------------------------------------------------------


class InProcesses:
    """Processes of this machine, each of which takes the next cell when it has ended one. One that dies takes only its
    own cell with it."""

    several = True

    def __init__(self, here: Here, at_once: int) -> None:
        self._here, self._at_once = here, at_once

    def run(self, cells: Sequence[Cell], watch: Watcher, *, keep: bool) -> Iterator[tuple[Cell, Ended]]:
        """Side by side; a single cell runs in this process."""
        if len(cells) <= 1:
            yield from self._here.run(cells, watch, keep=keep)
            return
        waiting = deque(cells)
        idle: list[_Process] = []
        busy: dict[Connection, tuple[_Process, Cell, float]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self._at_once:
                    process = idle.pop() if idle else _Process(self._here.plan, self._here.place)
                    cell = waiting.popleft()
                    watch.begun(cell)
                    process.send(cell)
                    busy[process.pipe] = (process, cell, time.monotonic())
                for pipe in wait(list(busy), timeout=0.5):
                    assert isinstance(pipe, Connection)
                    process, cell, started = busy.pop(pipe)
                    ended = process.receive()
                    if ended is None:
                        killed = KILLED.format(code=process.exit_code())
                        yield cell, Ended("", killed, time.monotonic() - started, _device())
                    else:
                        idle.append(process)
                        yield cell, ended
                watch.progress("processes at work", len(busy), self._at_once)
        finally:
            for process, _, _ in busy.values():
                process.kill()
            for process in idle:
                process.close()


class _Process:
    """A process that runs one cell after another. Nothing is inherited but the plan, so that a GPU can be used."""

    def __init__(self, plan: Plan, place: Workplace) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, plan, place, current_command()), daemon=True)
        self._process.start()
        other.close()

    def send(self, cell: Cell) -> None:
        try:
            self.pipe.send(cell)
        except OSError:  # it died, as `receive` will tell
            return

    def receive(self) -> Ended | None:
        """How its cell ended; nothing where the process did."""
        try:
            ended: Ended = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return ended

    def exit_code(self) -> int | None:
        self._process.join(timeout=10)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
        self._process.join(timeout=10)

    def close(self) -> None:
        self.pipe.close()  # it ends by itself when nobody sends any more
        self._process.join(timeout=10)
        self._process.terminate()


def _serve(pipe: Connection, plan: Plan, place: Workplace, command: str) -> None:
    """The life of a process: it ends when nobody sends any more, and at once when the study's own process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the study's own process is told too, and ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    here = Here(plan, place)
    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        with running_command(command):
            ended = here.run_one(cell, no_progress)
        pipe.send(ended)


def _end_with_parent() -> None:
    """Nobody is left to tell how a cell ended, and another process may want to go on with its run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# ---- Workers of a cluster -------------------------------------------------------------------------------------------


class CellWork(Work[Cell, Ended]):
    """What the workers of a cluster do with a cell. They keep no models: cells have different ones, which would not fit
    together."""

    def __init__(self, plan: Plan, place: Workplace) -> None:
        self._here = Here(plan, place)
        self._folder = place.folder.name

    def note(self, task: Cell) -> str:
        """In the study's own folder."""
        return f"{self._folder}/.{hashlib.sha256(task.name.encode()).hexdigest()[:10]}.json"

    def do(self, task: Cell, progress: Progress) -> Ended:
        """Run the cell, or go on with it."""
        return self._here.run_one(task, progress)


class OnCluster:
    """Workers of a cluster. Where one dies, another goes on with its cell."""

    several = True

    def __init__(self, pool: Pool[Cell, Ended]) -> None:
        self._pool = pool

    def run(self, cells: Sequence[Cell], watch: Watcher, *, keep: bool) -> Iterator[tuple[Cell, Ended]]:
        """Side by side."""

        def tick() -> None:
            watch.progress("workers at work", self._pool.at_work, self._pool.workers)

        for cell, ended in self._pool.run(cells, begun=watch.begun, tick=tick, keep=keep):
            yield cell, Ended("", ended.reason, 0.0, _device()) if isinstance(ended, Lost) else ended
