"""The folder of a study.

settings.json   the plan, and the versions of its benchmarks
cells.jsonl     which run each finished cell is, by the name of its folder beside this one
failures.jsonl  what went wrong in cells that are not finished
seconds.jsonl   how long each cell took; only this file differs between two runs of one plan
models/         personal models that were trained for the study
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from palate.runs import Ledger, Run, RunSettings, beside, file_name
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
