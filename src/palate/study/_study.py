"""`palate study`: does what a benchmark says of reward models tell what happens when they are used?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from palate.records import PalateError, unknown_name
from palate.report import Document
from palate.rewards import load_reward_model
from palate.runs import Experiment, Ledger, Reading, Run, RunWriter, begin_run, hired_pool, require_workers
from palate.runs._experiment import DEFAULT_READING
from palate.study._cells import Benchmarks, Cell, Workplace, cells_of, faults
from palate.study._document import study_document
from palate.study._hands import CellWork, Ended, Hands, Here, InProcesses, OnCluster, Silent, Watcher
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
    put_in_order,
    writing_alone,
)
from palate.study._summary import summarise_study

MOST_REFUSALS = 300
"""How often a cell is tried again whose run is in use, a second apart."""
HIDDEN = "the reason may name somebody"
UNFINISHED = (
    "{path}: {count} cells are not finished. What they have written so far lies in run folders beside this one, which "
    "palate does not know as theirs: name these folders with --run"
)


def study(
    plan: str | Path | Plan,
    *,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    at_once: int = 1,
    cluster: str | None = None,
    workers: int | None = None,
    only: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    watch: Watcher | None = None,
) -> StudySummary:
    """Run every cell of a plan that is not finished, and say what predicts what.

    The plan is checked whole before anything runs. A cell that fails is told and does not stop the others; the same
    call tries it again. `at_once` cells run side by side, each worker a process of its own; with `cluster`, they run on
    `workers` of a Ray cluster: `ray` for this machine, `auto` or `ray://host:port`. The folder is the same, byte for
    byte, but for what tells seconds. `only` and `models` name the measures and the reward models whose cells are run
    now; the others wait for a later call.
    """
    if at_once < 1:
        raise PalateError(f"--at-once is a number of processes from 1; {at_once} was given")
    require_workers(cluster, workers)
    if cluster is not None and at_once > 1:
        raise PalateError("with --cluster, --workers says how many cells run side by side; leave out --at-once")
    watch = watch or Silent()
    where = plan if isinstance(plan, (str, Path)) else plan.title
    if not isinstance(plan, Plan):
        plan = read_plan(Path(plan))
    data = Path(data_dir) if data_dir else None
    benchmarks = Benchmarks(data)
    _refuse(plan, where, benchmarks)
    cells = asked_cells(plan, only, models)
    if plan.train and "," in str(out):
        raise PalateError(f"{out} has a comma, after which options of the trained models follow: choose another --out")
    begun = _begin(plan, Path(out), benchmarks)
    place = Workplace(folder=begun.folder, out=Path(out), data=data)
    with writing_alone(begun) as writer:
        there = finished(begun)
        done = [cell for cell in cells if cell.name in there]
        watch.planned(cells, done)
        left = [cell for cell in cells if cell not in done]
        with ExitStack() as stack:
            if not left:
                hands: Hands = Here(plan, place, benchmarks)
            elif cluster is not None:
                work = CellWork(plan, place)
                hands = OnCluster(stack.enter_context(hired_pool(cluster, workers, work, place.out)))
            else:
                here = Here(plan, place, benchmarks)
                hands = InProcesses(here, at_once) if at_once > 1 else here

            def run(some: Sequence[Cell], *, keep: bool = True) -> bool:
                """Whether any of the cells was finished."""
                left[:] = [cell for cell in left if cell not in some]
                return _run(hands, some, writer, watch, keep=keep)

            run([cell for cell in left if not cell.measure])
            for some in _drawing(plan, cells, left):  # no two at once, since measures may share samples
                any(run([cell]) for cell in some)
            run(list(left), keep=False)
    put_in_order(begun, [cell.name for cell in cells_of(plan)])
    return STUDY.summarise(begun)


def _run(hands: Hands, cells: Sequence[Cell], writer: RunWriter, watch: Watcher, *, keep: bool) -> bool:
    """Run cells, and again those whose run another cell was writing to; whether any was finished."""
    success = False
    refusals = 0
    while cells:
        again = []
        for cell, ended in hands.run(cells, watch, keep=keep):
            if ended.in_use and hands.several and refusals < MOST_REFUSALS:
                again.append(cell)
            else:
                _keep(writer, cell, ended, watch)
                success = success or ended.failed is None
        cells, refusals = again, refusals + 1
        if again:
            time.sleep(1)
    return success


def asked_cells(plan: Plan, only: Sequence[str] | None = None, models: Sequence[str] | None = None) -> list[Cell]:
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


def _keep(writer: RunWriter, cell: Cell, ended: Ended, watch: Watcher) -> None:
    parts = sum(line.cell == cell.name for line in writer.lines(SECONDS).values())
    writer.add(SECONDS, [SecondsLine(cell=cell.name, part=parts, seconds=ended.seconds, device=ended.device)])
    if ended.failed is None:
        writer.add(CELLS, [CellLine(cell=cell.name, run=ended.run)])
    else:
        writer.add(FAILURES, [FailureLine(cell=cell.name, reason=ended.failed)])
    watch.ended(cell, ended.seconds, ended.failed)


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
