"""What lies in a folder of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from palate.evaluation import Settings
from palate.records import PalateError
from palate.runs import ModelSettings, Progress, Run, RunSummary, last_change, no_progress, open_run


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a folder."""

    run: str
    """Its folder."""
    kind: str | None
    """The command that makes such runs: `train` makes evaluations, too."""
    benchmark: str | None
    version: str | None
    benchmark_hash: str | None
    models: list[str]
    date: str
    """When anything was last added to it, in UTC."""
    complete: bool | None
    """Null where it cannot be told."""
    fault: str | None
    """Why it cannot be read, where that is so."""


def list_runs(folder: str | Path, *, progress: Progress = no_progress) -> list[ListedRun]:
    """Every run in a folder, the latest first. Runs without a report of their present state are summed up again."""
    place = Path(folder)
    if not place.is_dir():
        raise PalateError(
            f"there are no runs yet: no folder {place}. `palate eval mini` makes a first run in the folder runs; runs "
            "in another folder are listed by palate runs FOLDER"
        )
    folders = (
        [place] if (place / "settings.json").is_file() else [file.parent for file in place.glob("*/settings.json")]
    )
    if not folders:
        raise PalateError(f"{place} holds no run: no folder in it has a settings.json. `palate eval` makes one.")
    found = []
    for done, run in enumerate(folders):
        progress(f"reading {run.name}", done, len(folders))
        found.append(_listed(run))
    return sorted(found, key=lambda run: (run.date, run.run), reverse=True)


def _listed(folder: Path) -> ListedRun:
    changed = last_change(folder)
    date = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    try:
        run = open_run(folder, check=False)
        settings = run.settings
        card = settings.benchmark
        return ListedRun(
            run=str(folder),
            kind="train" if isinstance(settings, Settings) and settings.split else run.experiment.kind,
            benchmark=card.name,
            version=card.version,
            benchmark_hash=settings.content_hash,
            models=_models(run),
            date=date,
            complete=_complete(run, changed),
            fault=None,
        )
    except PalateError as error:
        return ListedRun(
            run=str(folder),
            kind=None,
            benchmark=None,
            version=None,
            benchmark_hash=None,
            models=[],
            date=date,
            complete=None,
            fault=str(error),
        )


def _complete(run: Run[Any], changed: float) -> bool | None:
    """As the run's last report says, where nothing was added since; else from the raw lines."""
    if not run.experiment.has_report:
        return None
    report = run.folder / "summary.json"
    if report.is_file() and report.stat().st_mtime >= changed:
        try:
            return msgspec.json.decode(report.read_bytes(), type=_Completeness).complete
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    run.check()
    summary: RunSummary = run.experiment.summarise(run)
    return summary.complete


class _Completeness(msgspec.Struct):
    complete: bool


def _models(run: Run[Any]) -> list[str]:
    """The reward models that the settings of a run name, whatever kind it is."""
    found: list[str] = []
    for name in run.settings.__struct_fields__:
        value = getattr(run.settings, name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ModelSettings):
                found.append(one.label)
    return found
