"""An export as one folder: the benchmark, the exchange record, TRL's columns, and everything as it was collected.

The folder is noted in the database before it is written, so that whoever is erased later is erased from it too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from palate.collect._database import Store, now
from palate.collect._export import RECORDS, Exported, export, export_exchange, export_records, export_trl
from palate.collect._forget import alone_with_exports, erase_from_export, erased_since
from palate.collect._project import Project, Survey
from palate.collect._tables import exports
from palate.records import PalateError

EXPORTS = "exports"


def export_folder(project: Project, store: Store, folder: Path | None = None) -> tuple[Path, Exported]:
    """Write everything that stands; where, and what was counted."""
    folder = (folder or project.folder / EXPORTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S-%f}").resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PalateError(f"{folder} is not empty; name another folder")
    collected = store.collected(project)
    if not collected.answers and not collected.survey:
        raise PalateError("nobody has answered yet, so there is nothing to export")
    with store.writing() as connection:
        store.insert_new(connection, exports, path=str(folder), date=now())
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    free = [question.id for task in project.tasks if isinstance(task, Survey)
            for question in task.questions if question.kind == "text"]  # fmt: skip
    with alone_with_exports(project):
        export_records(collected, folder / RECORDS)
        counts = export_trl(collected, folder / "trl.jsonl")
        export_exchange(collected, folder / "exchange.jsonl", without_questions=free)
        if counts.comparisons:
            export(collected, folder / "benchmark", without_questions=free)
        for person in erased_since(store, (person.id for person in collected.participants)):
            erase_from_export(folder, person)  # who withdrew while it was written
    return folder, counts
