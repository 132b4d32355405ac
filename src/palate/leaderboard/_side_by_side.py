"""Runs of any kind beside each other: paired where ratings can be paired, else in the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from palate.evaluation import EVALUATION, RunComparison, compare
from palate.records import PalateError
from palate.report import Document, Note, Section, Table
from palate.runs import kind_of, open_run
from palate.stats import Resample

UNPAIRED = "The runs are not paired here: each interval is its own run's, and no difference was tested."


class SideBySide(msgspec.Struct, frozen=True, kw_only=True):
    """The main tables of runs of one kind, with the run of each row."""

    kind: str
    runs: list[str]
    tables: list[Table]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What `palate compare` found, kind by kind."""

    paired: RunComparison | None
    beside: list[SideBySide]
    alone: list[str] = []
    """Runs that are the only ones of their kind, in words."""


def compare_runs(
    folders: Sequence[str | Path], *, seed: int = 0, resample: Resample = "auto", controls: bool = False
) -> Compared:
    """Compare runs of each kind with each other."""
    if len(folders) < 2:
        raise PalateError("name at least two runs to compare, such as runs/FIRST latest; `palate runs` lists yours")
    kinds: dict[str, list[Path]] = {}
    for folder in map(Path, folders):
        kinds.setdefault(kind_of(folder), []).append(folder)
    alone = [f"{some[0]} is the only one of kind {kind}" for kind, some in kinds.items() if len(some) == 1]
    kinds = {kind: some for kind, some in kinds.items() if len(some) > 1}
    if not kinds:
        raise PalateError(f"only runs of the same kind can be compared: {', '.join(alone)}")
    evaluations = kinds.pop(EVALUATION.kind, [])
    return Compared(
        paired=compare(*evaluations, seed=seed, resample=resample, controls=controls) if evaluations else None,
        beside=[_beside(kind, some) for kind, some in kinds.items()],
        alone=alone,
    )


def _beside(kind: str, folders: Sequence[Path]) -> SideBySide:
    """The tables that a terminal shows of these runs; rows of tables with the same columns stand under each other."""
    merged: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = {}
    words: dict[tuple[str, tuple[str, ...]], int] = {}
    for folder in folders:
        run = open_run(folder)
        if not run.experiment.has_report:
            raise PalateError(f"{folder} is a run of another kind ({kind}) that has no numbers to compare")
        document = run.experiment.document(run, run.experiment.summarise(run), users=False)
        for section in document.sections:
            for table in section.blocks if section.terminal else ():
                if isinstance(table, Table):
                    key = (table.title or section.title, table.titles)
                    merged.setdefault(key, []).extend((folder.name, *row) for row in table.rows)
                    words[key] = table.words
    tables = [
        Table(title=title, titles=("run", *titles), words=words[title, titles] + 1, rows=rows)
        for (title, titles), rows in merged.items()
    ]
    return SideBySide(kind=kind, runs=[str(folder) for folder in folders], tables=tables)


def beside_document(found: SideBySide) -> Document:
    """For a terminal."""
    sections = [Section(title=table.title, blocks=[table], terminal=True) for table in found.tables]
    sections.append(Section(title="Not paired", blocks=[Note(UNPAIRED)], terminal=True))
    return Document(name="Side by side", title=found.kind, size=f"{len(found.runs)} runs", sections=sections)
