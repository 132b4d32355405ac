"""One verb for both: a benchmark is asked what it can see, a run whom it serves."""

from __future__ import annotations

from pathlib import Path

from palate.audit._benchmark import audit_benchmark
from palate.audit._benchmark_document import benchmark_document
from palate.audit._benchmark_results import BenchmarkAudit
from palate.audit._run import audit_run
from palate.audit._run_document import run_document
from palate.audit._run_results import RunAudit
from palate.evaluation import SMALLEST_GROUP
from palate.records import PalateError
from palate.report import Document, document_markdown, document_page
from palate.runs import Progress, refuse_folder_of_runs, write_whole


def audit(
    target: str | Path,
    *,
    least: int = SMALLEST_GROUP,
    users: bool = False,
    impersonal: bool | None = None,
    claimed: float | None = None,
    run: str | Path | None = None,
    values: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> BenchmarkAudit | RunAudit:
    """Audit a run folder, or a benchmark by name or path."""
    folder = Path(target)
    if is_run(folder):
        if claimed is not None or run is not None:
            raise PalateError(
                f"{target} is a run. Name the benchmark first and the run after it: palate audit DATA --run {target}"
            )
        if values:
            raise PalateError(f"{target} is a run; values are looked for in the prompts of a benchmark")
        return audit_run(folder, least=least, users=users, seed=seed, progress=progress)
    if users:
        raise PalateError(f"{target} is not a run; users can be named in the audit of a run only")
    try:
        return audit_benchmark(
            target,
            least=least,
            impersonal=impersonal,
            claimed=claimed,
            run=run,
            values=values,
            seed=seed,
            runs=runs,
            data_dir=data_dir,
            progress=progress,
        )
    except PalateError as error:
        refuse_folder_of_runs(folder)
        if folder.is_dir() and not _holds_data(folder):
            raise PalateError(
                f"{target} is neither a run (it has no settings.json) nor a benchmark (it has no data files). "
                "Name a folder that palate eval or palate train made, or a benchmark that palate data list shows."
            ) from error
        raise


def is_run(folder: Path) -> bool:
    """Whether a folder was made by `palate eval` or `palate train`."""
    return (folder / "settings.json").is_file()


def _holds_data(folder: Path) -> bool:
    found = (file.name for depth in ("*", "*/*") for file in folder.glob(depth))
    return any(name.endswith((".jsonl", ".json", ".csv", ".parquet", ".gz")) for name in found)


def audit_document(found: BenchmarkAudit | RunAudit, *, whole: bool = True) -> Document:
    """What an audit says; without `whole`, no more than a terminal can show."""
    return benchmark_document(found) if isinstance(found, BenchmarkAudit) else run_document(found, whole=whole)


def write_audit(found: BenchmarkAudit | RunAudit, file: Path) -> None:
    """Write an audit as a web page where the file's name ends in .html, else as Markdown."""
    write_document(audit_document(found), file)


def write_document(document: Document, file: Path) -> None:
    """Write a document as a web page where the file's name ends in .html, else as Markdown."""
    written = document_page if file.suffix.lower() in (".html", ".htm") else document_markdown
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, written(document).encode("utf-8", "replace"))
    except OSError as error:
        raise PalateError(f"cannot write the audit to {file}: {error.strerror or error}") from error
