"""The folder of a study.

settings.json   the plan, and the versions of its benchmarks
cells.jsonl     which run each finished cell is, by the name of its folder beside this one
failures.jsonl  what went wrong in cells that are not finished
seconds.jsonl   how long each cell took; only this file differs between two runs of one plan
models/         personal models that were trained for the study
.running.json   who runs the study now
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from palate.runs import (
    AnotherWriterError,
    Ledger,
    Run,
    RunSettings,
    RunWriter,
    beside,
    file_name,
    json_lines,
    locked,
    write_whole,
)
from palate.study._plan import Plan


class StudySettings(RunSettings, frozen=True, kw_only=True):
    """The plan, and the versions of the benchmarks that it names."""

    kind: Literal["study"] = "study"
    plan: Plan
    versions: dict[str, str]
    """By the name of each benchmark, the hash of its content."""
    sources: dict[str, str]
    """By the name of each reward model, the package or the file that it comes from: changes with its code."""

    @property
    def folder_name(self) -> str:
        """With the title."""
        return f"{file_name(self.plan.title)}-study-{self.hash}"


class CellLine(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that is finished."""

    cell: str
    run: str
    """The folder of its run, or of the model that was trained, from the folder in which the study's own lies."""


class FailureLine(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cell is not finished."""

    cell: str
    reason: str


class SecondsLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell took, from where it was begun or resumed."""

    cell: str
    part: int
    """Counts up where a cell was interrupted and resumed."""
    seconds: float
    device: str


CELLS = Ledger("cells.jsonl", CellLine, lambda line: (line.cell, line.run), about="nobody")
FAILURES = Ledger("failures.jsonl", FailureLine, lambda line: (line.cell, line.reason), about="nobody")
SECONDS = Ledger("seconds.jsonl", SecondsLine, lambda line: (line.cell, line.part), about="nobody")
LEDGERS = (CELLS, FAILURES, SECONDS)


def finished(run: Run[StudySettings]) -> dict[str, Path]:
    """The folders of finished cells, by the cells' names, as far as they are there."""
    folders = {line.cell: beside(run.folder, line.run) for line in run.read(CELLS)}
    return {cell: folder for cell, folder in folders.items() if folder.is_dir()}


RUNNING = ".running.json"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs a study, for those who would run it at the same time."""

    host: str
    pid: int
    since: str


@contextmanager
def writing_alone(run: Run[StudySettings]) -> Iterator[RunWriter]:
    """Add to the study's own ledgers. A second process is refused, and told who runs the study."""
    file = run.folder / RUNNING
    with ExitStack() as stack:
        try:
            writer = stack.enter_context(run.writing())
        except AnotherWriterError as error:
            raise AnotherWriterError(f"{error}{_who(file)}") from error
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        write_whole(file, msgspec.json.encode(Running(host=socket.gethostname(), pid=os.getpid(), since=now)))
        stack.callback(file.unlink, missing_ok=True)
        yield writer


def _who(file: Path) -> str:
    try:
        running = msgspec.json.decode(file.read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return ""
    return f". It is process {running.pid} on {running.host}, which runs this study since {running.since}"


def put_in_order(run: Run[StudySettings], cells: Sequence[str]) -> None:
    """Sort what is told of cells as one process would have told it, whoever ended first."""
    places = {cell: place for place, cell in enumerate(cells)}
    ledgers: tuple[Ledger[Any], ...] = (CELLS, FAILURES)
    for ledger in ledgers:
        lines = list(run.read(ledger))
        ordered = sorted(lines, key=lambda line: places.get(line.cell, len(places)))
        if ordered != lines:
            with locked([run.folder / ledger.name]):
                write_whole(run.folder / ledger.name, json_lines(ordered))
