"""`palate study`: does what a benchmark says of reward models tell what happens when they are used?"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from palate.records import PalateError, describe_error, unknown_name
from palate.report import Document
from palate.rewards import load_reward_model
from palate.runs import Experiment, Ledger, Progress, Reading, Run, RunWriter, begin_run, no_progress
from palate.runs._experiment import DEFAULT_READING
from palate.study._cells import Benchmarks, Cell, Workplace, cells_of, faults, run_cell
from palate.study._document import study_document
from palate.study._plan import IN_CONTEXT, BestOfN, Plan, PlanError, Reach, read_plan
from palate.study._results import StudySummary
from palate.study._run import (
    CELLS,
    FAILURES,
    LEDGERS,
    SECONDS,
    CellLine,
    FailureLine,
    SecondsLine,
    StudySettings,
    finished,
)
from palate.study._summary import summarise_study

MOST_REFUSALS = 300
"""How often a cell is tried again whose run is in use, a second apart."""
KILLED = "its process was ended from outside, perhaps for want of memory (exit code {code})"
HIDDEN = "the reason may name somebody"
UNFINISHED = (
    "{path}: {count} cells are not finished. What they have written so far lies in run folders beside this one, which "
    "palate does not know as theirs: name these folders with --run"
)


class Watcher(Protocol):
    """Who is told how a study goes."""

    def planned(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """All cells, and those that were finished before."""

    def begun(self, cell: Cell) -> None:
        """A cell starts or goes on."""

    def ended(self, cell: Cell, seconds: float, failed: str | None) -> None:
        """A cell is finished, or failed for this reason."""

    def progress(self, what: str, done: float, total: int, /) -> None:
        """What the running cell is doing, where one runs at a time."""


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


def study(
    plan: str | Path | Plan,
    *,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    at_once: int = 1,
    only: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    watch: Watcher | None = None,
) -> StudySummary:
    """Run every cell of a plan that is not finished, and say what predicts what.

    The plan is checked whole before anything runs. A cell that fails is told and does not stop the others; the same
    call tries it again. `at_once` cells run side by side, each worker a process of its own. `only` and `models` name
    the measures and the reward models whose cells are run now; the others wait for a later call.
    """
    if at_once < 1:
        raise PalateError(f"--at-once is a number of processes from 1; {at_once} was given")
    watch = watch or Silent()
    where = plan if isinstance(plan, (str, Path)) else plan.title
    if not isinstance(plan, Plan):
        plan = read_plan(Path(plan))
    data = Path(data_dir) if data_dir else None
    benchmarks = Benchmarks(data)
    _refuse(plan, where, benchmarks)
    cells = _asked(plan, only, models)
    if plan.train and "," in str(out):
        raise PalateError(f"{out} has a comma, after which options of the trained models follow: choose another --out")
    begun = _begin(plan, Path(out), benchmarks)
    place = Workplace(folder=begun.folder, out=Path(out), data=data)
    with begun.writing() as writer:
        there = finished(begun)
        done = [cell for cell in cells if cell.name in there]
        watch.planned(cells, done)

        def alone(cell: Cell) -> bool:
            left.remove(cell)
            watch.begun(cell)
            ended = _try(plan, cell, place, benchmarks, watch.progress)
            _keep(writer, cell, ended, watch)
            return ended.failed is None

        def run(some: Sequence[Cell]) -> None:
            if at_once == 1 or len(some) == 1:
                for cell in some:
                    alone(cell)
            else:
                _side_by_side(plan, some, place, at_once, writer, watch)

        left = [cell for cell in cells if cell not in done]
        run([cell for cell in left if not cell.measure])
        for some in _drawing(plan, cells, left):  # no two at once, since measures may share samples
            any(alone(cell) for cell in some)
        run([cell for cell in left if cell.measure])
    return STUDY.summarise(begun)


def _asked(plan: Plan, only: Sequence[str] | None, models: Sequence[str] | None) -> list[Cell]:
    """All cells, or those of some measures and models, and the training of models."""
    measures, zoo = [measure.name for measure in plan.measures], [model.label for model in plan.zoo]
    for what, named, known in (("measure", only, measures), ("model", models, [*zoo, IN_CONTEXT])):
        for name in named or ():
            if name not in known:
                raise unknown_name(what, name, known)
    return [
        cell
        for cell in cells_of(plan)
        if (not only or not cell.measure or cell.measure in only) and (not models or cell.model in models)
    ]


def check_plan(plan: Plan, where: object, data: Path | None = None) -> None:
    """Refuse a plan of which any cell could not run, with all faults at once."""
    _refuse(plan, where, Benchmarks(data))


def _refuse(plan: Plan, where: object, benchmarks: Benchmarks) -> None:
    if wrong := list(dict.fromkeys(faults(plan, benchmarks))):
        raise PlanError(where, wrong)


def _begin(plan: Plan, out: Path, benchmarks: Benchmarks) -> Run[StudySettings]:
    names = dict.fromkeys([*(measure.benchmark for measure in plan.measures), *(model.data for model in plan.train)])
    first = benchmarks.named(plan.measures[0].benchmark)
    settings = StudySettings(
        benchmark=first.card,
        content_hash=first.content_hash,
        seed=plan.seed,
        plan=plan,
        versions={name: benchmarks.named(name).content_hash for name in names},
        sources={model.rm: load_reward_model(model.rm)[1]["source"] for model in plan.models},
    )
    return begin_run(out, STUDY, settings)


def _drawing(plan: Plan, cells: Sequence[Cell], left: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells that are left and draw samples which others share; of each list, one that succeeds is enough."""
    for measure in plan.downstream:
        if isinstance(measure, (BestOfN, Reach)):
            own = [cell for cell in cells if cell.measure == measure.name]
            choosing = [cell for cell in own if cell.model != IN_CONTEXT]
            yield [cell for cell in own if cell.model == IN_CONTEXT and cell in left]
            yield choosing if all(cell in left for cell in choosing) else []


def _try(plan: Plan, cell: Cell, place: Workplace, benchmarks: Benchmarks, progress: Progress) -> Ended:
    started = time.monotonic()
    run, failed, in_use = "", None, False
    try:
        run = run_cell(plan, cell, place, benchmarks, progress)
    except PalateError as error:
        failed, in_use = str(error), isinstance(error.__cause__, BlockingIOError)
    except Exception as error:
        failed = describe_error(error)
    return Ended(run, failed, time.monotonic() - started, _device(), in_use)


def _device() -> str:
    """What cells ran on, as far as torch was used."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_available() else "CPU"


def _keep(writer: RunWriter, cell: Cell, ended: Ended, watch: Watcher) -> None:
    parts = sum(line.cell == cell.name for line in writer.lines(SECONDS).values())
    writer.add(SECONDS, [SecondsLine(cell=cell.name, part=parts, seconds=ended.seconds, device=ended.device)])
    if ended.failed is None:
        writer.add(CELLS, [CellLine(cell=cell.name, run=ended.run)])
    else:
        writer.add(FAILURES, [FailureLine(cell=cell.name, reason=ended.failed)])
    watch.ended(cell, ended.seconds, ended.failed)


# ---- Several cells at once: a thread for each worker process, which takes the next cell when it has finished one. ---


def _side_by_side(
    plan: Plan, cells: Sequence[Cell], place: Workplace, at_once: int, writer: RunWriter, watch: Watcher
) -> None:
    """Run the cells in worker processes; one that dies takes only its own cell with it."""
    waiting, lock, stop = list(cells), threading.Lock(), threading.Event()
    refused: Counter[str] = Counter()
    errors: list[BaseException] = []
    workers: list[_Worker] = []

    def work() -> None:
        worker: _Worker | None = None
        try:
            while not stop.is_set():
                with lock:
                    if not waiting:
                        return
                    cell = waiting.pop(0)
                    watch.begun(cell)
                    if worker is None:
                        worker = _Worker(plan, place)
                        workers.append(worker)
                ended = worker.run(cell)
                if stop.is_set():  # it did not fail: it was stopped
                    return
                if ended.failed == KILLED:
                    ended = ended._replace(failed=KILLED.format(code=worker.exit_code()))
                    worker = None
                with lock:
                    refused[cell.name] += ended.in_use
                    if ended.in_use and refused[cell.name] < MOST_REFUSALS:
                        waiting.append(cell)
                    else:
                        _keep(writer, cell, ended, watch)
                if ended.in_use:
                    time.sleep(1)
        except BaseException as error:
            errors.append(error)
            stop.set()
        finally:
            if worker is not None:
                worker.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(cells)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(timeout=0.2)
    except KeyboardInterrupt:
        stop.set()
        for worker in workers:
            worker.kill()
        for thread in threads:
            thread.join()
        raise
    if errors:
        raise errors[0]


class _Worker:
    """A process that runs one cell after another. Nothing is inherited but the plan, so that a GPU can be used."""

    def __init__(self, plan: Plan, place: Workplace) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, plan, place), daemon=True)
        self._process.start()
        other.close()

    def run(self, cell: Cell) -> Ended:
        started = time.monotonic()
        try:
            self._pipe.send(cell)
            ended: Ended = self._pipe.recv()
        except (EOFError, OSError):
            return Ended("", KILLED, time.monotonic() - started, _device())
        return ended

    def exit_code(self) -> int | None:
        self._process.join(timeout=10)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._pipe.close()  # it ends by itself when nobody sends any more
        self._process.join(timeout=10)
        self._process.terminate()


def _serve(pipe: Connection, plan: Plan, place: Workplace) -> None:
    """The life of a worker: it ends when nobody sends any more, and at once when the study's own process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the study's own process is told too, and ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    benchmarks = Benchmarks(place.data)
    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        pipe.send(_try(plan, cell, place, benchmarks, no_progress))


def _end_with_parent() -> None:
    """Nobody is left to tell how a cell ended, and another process may want to go on with its run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class StudyExperiment(Experiment[StudySettings, StudySummary]):
    """Whether a benchmark predicts what happens downstream, over many reward models."""

    kind = "study"
    command = "palate study"
    settings = StudySettings

    def ledgers(self, settings: StudySettings) -> Sequence[Ledger[Any]]:
        """Which cells are finished, which failed, and how long they took."""
        return LEDGERS

    def summarise(self, run: Run[StudySettings], reading: Reading = DEFAULT_READING) -> StudySummary:
        """Every number again, from the raw ratings, texts and grades of all cells."""
        return summarise_study(run)

    def document(self, run: Run[StudySettings], summary: StudySummary, *, users: bool = True) -> Document:
        """What predicts what, with tables and plots; it holds nothing of any single user."""
        return study_document(summary)

    def parts(self, run: Run[StudySettings]) -> list[Path]:
        """The runs of finished cells."""
        trained = run.folder.resolve()
        return [folder for folder in dict.fromkeys(finished(run).values()) if trained not in folder.parents]

    def without_users(self, summary: StudySummary) -> StudySummary:
        """All but why cells failed, which may name an item."""
        reasons = [one.reason for one in summary.unfinished if one.reason]

        def told(text: str) -> str:
            for reason in reasons:
                text = text.replace(reason, HIDDEN)
            return text

        return msgspec.structs.replace(
            summary,
            unfinished=[msgspec.structs.replace(one, reason=told(one.reason)) for one in summary.unfinished],
            findings=[msgspec.structs.replace(finding, text=told(finding.text)) for finding in summary.findings],
            warnings=[told(text) for text in summary.warnings],
        )

    def left_after_forgetting(self, run: Run[StudySettings]) -> list[str]:
        """Runs of cells that are not finished are not known as its own."""
        there = finished(run)
        left = sum(cell.name not in there for cell in cells_of(run.settings.plan))
        return [UNFINISHED.format(path=run.folder, count=left)] if left else []

    def may_tell_of_anybody(self, run: Run[StudySettings]) -> Sequence[Ledger[Any]]:
        """What went wrong is told in words, which may name an item."""
        return (FAILURES,)


STUDY = StudyExperiment()
