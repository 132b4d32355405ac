"""What a kind of measurement is. Reporting, resuming, erasing, exporting and listing work on any of them.

A kind says what its settings are, which ledgers its folder holds, how the numbers follow from them, and what a report
shows. It is registered by name; a plug-in registers its own as an entry point of the group `palate.experiments`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from palate.records import PalateError, Registry, unknown_name
from palate.report import (
    Columns,
    Document,
    Finding,
    document_columns,
    document_csv,
    document_fragment,
    document_markdown,
    document_page,
)
from palate.runs._finished import FINISHED, Finished, file_hashes, has_reports, made_by, read_finished
from palate.runs._ledger import Ledger, write_whole
from palate.runs._models import CAUTION
from palate.runs._repair import Dropped, repair_ledgers
from palate.runs._run import Run, RunSettings, SettingsType, _settled, kind_of
from palate.runs._shards import SHARD, Place
from palate.runs._spent import SPENT, RunSpent, read_spent
from palate.runs._spent_table import spent_section
from palate.stats import Resample
from palate.storage import address_of

if TYPE_CHECKING:
    import pandas
    import polars


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the summaries of all kinds of runs say. All intervals are 95%."""

    kind: str
    run: str
    """The run's folder."""
    benchmark: str
    version: str
    benchmark_title: str
    benchmark_hash: str
    licence: str
    seed: int
    items: int
    users: int
    complete: bool
    """False while something is still to be measured."""
    warnings: list[str]
    """What a reader should know before believing the numbers."""
    findings: list[Finding]
    """The same, and what the numbers say."""
    data_left_out: list[str] = []
    """What of the data was left out before the run, with counts, such as ties."""

    @property
    def about_data(self) -> list[Finding]:
        """What was left out of the data, as a finding."""
        return _about_data(self.data_left_out)

    def columns(self) -> Columns:
        """The main numbers with full precision, as in results.csv. The run's folder is read again."""
        return document_columns(self._document())

    def to_pandas(self) -> pandas.DataFrame:
        """The main numbers as a pandas data frame, one row for each row of results.csv."""
        frames = _frames("pandas")
        columns = self.columns()
        frame: pandas.DataFrame = frames.DataFrame(columns.rows, columns=list(columns.names))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The main numbers as a polars data frame, one row for each row of results.csv."""
        frames = _frames("polars")
        columns = self.columns()
        names = list(columns.names)
        frame: polars.DataFrame = frames.DataFrame(columns.rows, schema=names, orient="row", infer_schema_length=None)
        return frame

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the tables and findings of the terminal, and nothing of a single user."""
        try:
            return document_fragment(self._document())
        except PalateError:  # the folder is gone: a notebook then shows the object as Python does
            return None

    def _document(self) -> Document:
        run = open_run(Path(self.run), check=False)
        return run.experiment.document(run, run.experiment.without_users(self), users=False)


def _frames(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise PalateError(f"to_{package}() needs {package}: pip install {package}") from error


def _cautions(settings: RunSettings) -> list[Finding]:
    """What models have to say of themselves on these items."""
    named = [*getattr(settings, "models", []), *getattr(settings, "reward_models", [])]
    named += [one] if (one := getattr(settings, "reward_model", None)) else []
    return [Finding("warning", one.identity[CAUTION]) for one in named if CAUTION in getattr(one, "identity", {})]


def _about_data(left_out: Sequence[str]) -> list[Finding]:
    """What of the data is not in a run, in one finding."""
    return [Finding("note", f"Not in this run: {'; '.join(left_out)}")] if left_out else []


def common_fields(run: Run[Any], *, items: int, users: int, complete: bool, findings: list[Finding]) -> dict[str, Any]:
    """What `RunSummary` holds of a run."""
    card = run.settings.benchmark
    findings = [*_cautions(run.settings), *findings]
    return {
        "kind": run.experiment.kind,
        "run": str(run.folder),
        "benchmark": card.name,
        "version": card.version,
        "benchmark_title": card.title,
        "benchmark_hash": run.settings.content_hash,
        "licence": card.licence,
        "seed": run.settings.seed,
        "items": items,
        "users": users,
        "complete": complete,
        "warnings": [finding.text for finding in findings if finding.severity == "warning"],
        "findings": [*findings, *_about_data(card.left_out)],
        "data_left_out": list(card.left_out),
    }


SummaryType = TypeVar("SummaryType", bound=RunSummary)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How the numbers of a run are recomputed."""

    read_again: bool = False
    """Read verdicts and grades again from what the models wrote."""
    resample: Resample = "auto"


DEFAULT_READING = Reading()
REPORTS = ("report.html", "report.md", "results.csv", "summary.json")
"""What `write_report` writes into a run folder."""

SAID = ("seconds", "times", "models")
"""What JSON holds of what a run cost."""


class Experiment(ABC, Generic[SettingsType, SummaryType]):
    """A kind of run."""

    kind: ClassVar[str]
    """As `settings.json` and `palate list experiments` name it."""
    command: ClassVar[str]
    """The command that makes such runs."""
    settings: type[SettingsType]
    summary: type[SummaryType] | None = None
    """Of kinds whose finished runs answer at once: what their summaries are read back as."""
    has_report: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()
    """Which fields of `Reading` such a run heeds."""

    @abstractmethod
    def ledgers(self, settings: SettingsType) -> Sequence[Ledger[Any]]:
        """The files of such a folder that grow by lines, each after those that it needs."""

    @abstractmethod
    def summarise(self, run: Run[SettingsType], reading: Reading = DEFAULT_READING) -> SummaryType:
        """Every number, from the folder alone; no model is needed."""

    @abstractmethod
    def document(self, run: Run[SettingsType], summary: SummaryType, *, users: bool = True) -> Document:
        """What a report shows. Without `users` it holds no item, profile, id or number of a single user."""

    def without_users(self, summary: SummaryType) -> SummaryType:
        """The summary with nothing about any single user. By default all goes that names a user or an item."""
        hidden: SummaryType = _without_users(summary)
        return hidden

    def parts(self, run: Run[SettingsType]) -> list[Path]:
        """Folders of other runs that this one is made of."""
        return []

    def place(self, run: Run[SettingsType], ledger: Ledger[Any], batch: int) -> Place:
        """Where a line of a ledger stands when one process measures, so that shards can be merged.

        The ledgers before this one are merged in `run` already. `batch` is the largest batch size of its models.
        """
        raise PalateError(f"runs of {self.command} have no shards to merge")

    def merged(self, run: Run[SettingsType], shard: Path) -> None:
        """Make what lies beside such a run, once it is merged; `shard` is the folder of the first shard."""

    def refuse_to_forget(self, run: Run[SettingsType], user: str) -> str | None:
        """Why this user cannot be erased from the run, where that is so."""
        return None

    def may_tell_of_anybody(self, run: Run[SettingsType]) -> Sequence[Ledger[Any]]:
        """Ledgers that may hold traces of any user, no longer known whom; they are erased along with any user."""
        return ()

    def left_after_forgetting(self, run: Run[SettingsType]) -> list[str]:
        """What of an erased user may stay in such a run, in words."""
        return []


def _without_users(value: Any) -> Any:
    """A value without what has a field `user_id` or `item`, however deep it stands."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(
            value,
            **{
                name: None if _is_of_user(one) else _without_users(one)
                for name, one in msgspec.structs.asdict(value).items()
            },
        )
    if isinstance(value, list):
        return [_without_users(one) for one in value if not _is_of_user(one)]
    if isinstance(value, tuple) and not _fields(value):
        return tuple(_without_users(one) for one in value if not _is_of_user(one))
    if isinstance(value, dict):
        return {name: _without_users(one) for name, one in value.items() if not _is_of_user(one)}
    return value


def _is_of_user(value: object) -> bool:
    return bool({"user_id", "item"} & set(_fields(value)))


def _fields(value: object) -> tuple[str, ...]:
    """Of a struct or a named tuple."""
    return getattr(value, "__struct_fields__", getattr(value, "_fields", ()))


EXPERIMENTS: Registry[Experiment[Any, Any]] = Registry(
    "experiment",
    "palate.experiments",
    {
        "eval": ("Reward models on what individual users prefer.", "palate.evaluation:EVALUATION"),
        "best-of-n": ("Reward models choose among a policy's own texts.", "palate.downstream:BEST_OF_N"),
        "guide": ("Reward models guide a policy while it writes.", "palate.downstream:GUIDE"),
        "steer": ("Ways of steering a policy beside what the user wrote.", "palate.downstream:STEER"),
        "reach": ("How far a policy could follow a reward.", "palate.downstream:REACH"),
        "ppo": ("A policy trained with a reward model.", "palate.downstream:PPO"),
        "build": ("A benchmark made from raw histories.", "palate.build:BUILD"),
        "study": ("Whether benchmarks predict what happens downstream.", "palate.study:STUDY"),
        "samples": ("Texts of a policy that several runs share.", "palate.downstream:SHARED_SAMPLES"),
    },
)


def experiment_of(kind: str) -> Experiment[Any, Any]:
    """A kind of run by its name.

    Only names count here, and no path: a run folder may come from a stranger, whose code is not to be run.
    """
    if kind not in EXPERIMENTS:
        raise unknown_name("kind of run", kind, EXPERIMENTS, hint="Install the package that brings it.")
    return EXPERIMENTS.find(kind).target


def open_run(folder: Path, experiment: Experiment[SettingsType, Any] | None = None, *, check: bool = True) -> Run[Any]:
    """An existing run, to be read; refused where it is of another kind or, with `check`, where a line is damaged."""
    kind = kind_of(folder)
    if experiment is None:
        experiment = experiment_of(kind)
    elif experiment.kind != kind:
        raise PalateError(f"{folder} is a run of {experiment_of(kind).command}; this needs one of {experiment.command}")
    run = Run(folder, _settled(folder, experiment.settings), experiment)
    if check:
        run.check()
    return run


def spent_of(run: Run[Any]) -> RunSpent | None:
    """What is recorded of a run and of those that it is made of; None where nothing is."""
    own = read_spent(run.folder)
    parts = [spent for folder in run.experiment.parts(run) if (spent := read_spent(folder)) is not None]
    if own is None and not parts:
        return None
    total = own or RunSpent()
    for part in parts:
        total = total.plus(part)
    if own is not None:  # its clock ran while its parts were measured
        total = msgspec.structs.replace(total, seconds=own.seconds, times=own.times)
    return msgspec.structs.replace(total, first=None)


def summary_fields(run: Run[Any], summary: RunSummary) -> dict[str, Any]:
    """A summary as JSON holds it: with what the run cost, which is no part of what it found."""
    fields = msgspec.structs.asdict(summary)
    spent = spent_of(run)
    if spent is None:
        return {**fields, "spent": None}
    return {**fields, "spent": {name: msgspec.to_builtins(getattr(spent, name)) for name in SAID}}


def _document(run: Run[Any], summary: RunSummary, *, users: bool = True) -> Document:
    """What a report shows, with what the run cost at its end."""
    document = run.experiment.document(run, summary, users=users)
    return msgspec.structs.replace(document, sections=[*document.sections, spent_section(spent_of(run))])


def report_files(run: Run[Any], summary: RunSummary, *, users: bool = True) -> tuple[Document, dict[str, bytes]]:
    """What `write_report` writes, by the names of its files."""
    summary = addressed(summary if users else run.experiment.without_users(summary))
    document = _document(run, summary, users=users)
    return document, {
        "report.html": document_page(document).encode("utf-8", "replace"),
        "report.md": document_markdown(document).encode("utf-8", "replace"),
        "results.csv": document_csv(document).encode("utf-8", "replace"),
        "summary.json": msgspec.json.format(msgspec.json.encode(summary_fields(run, summary)), indent=1) + b"\n",
    }


def write_report(run: Run[Any], summary: RunSummary, *, users: bool = True) -> Document:
    """Write report.html, report.md, results.csv and summary.json into the run folder; what they show comes back.

    Without `users`, none of them holds an item, a profile, an id or a number of a single user.
    """
    document, files = report_files(run, summary, users=users)
    write_report_files(run, files)
    return document


def write_report_files(run: Run[Any], files: Mapping[str, bytes]) -> None:
    """Write what `report_files` made into the run folder."""
    try:
        for name, content in files.items():
            write_whole(run.folder / name, content)
    except OSError as error:
        raise PalateError(f"cannot write the report to {run.folder}: {error.strerror or error}") from error


def known_summary(
    run: Run[SettingsType], experiment: Experiment[SettingsType, SummaryType], reading: Reading = DEFAULT_READING
) -> SummaryType | None:
    """What a run came to that `begin_run` found finished; None where it has to be measured or summarised."""
    if run.finished is None or experiment.summary is None or bytes(run.finished.reading) != _json(reading):
        return None
    try:
        summary = msgspec.json.decode(run.finished.summary, type=experiment.summary)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(summary, run=str(run.folder))  # it may have been moved


def conclude(
    run: Run[SettingsType], experiment: Experiment[SettingsType, SummaryType], reading: Reading = DEFAULT_READING
) -> SummaryType:
    """Summarise a run that was just measured. Where it is complete, the same call will find it finished."""
    ledgers = file_hashes(run.folder, (ledger.name for ledger in run.ledgers))
    summary = experiment.summarise(run, reading)
    if summary.complete and experiment.summary is not None:
        _keep(
            run, Finished(made_by=made_by(), reading=_raw(reading), ledgers=ledgers, summary=_raw(addressed(summary)))
        )
    return summary


def report_of(run: Run[Any], summary: RunSummary, *, users: bool = True) -> Document:
    """What a report shows, with its files written, unless they are there just as they were written of this summary."""
    kept = read_finished(run.folder) if users else None
    told = _json(addressed(summary))
    if kept is not None and has_reports(kept, run.folder, told):
        return _document(run, summary)
    document = write_report(run, summary, users=users)
    if kept is not None and bytes(kept.summary) == told:
        _keep(run, msgspec.structs.replace(kept, reports=file_hashes(run.folder, (*REPORTS, SPENT))))
    return document


def addressed(summary: SummaryType) -> SummaryType:
    """The summary as others shall read it: a run in a bucket is called by its address."""
    return msgspec.structs.replace(summary, run=address_of(Path(summary.run)))


def _keep(run: Run[Any], finished: Finished) -> None:
    try:
        write_whole(run.folder / FINISHED, msgspec.json.encode(finished))
    except OSError:  # only speed is lost
        (run.folder / FINISHED).unlink(missing_ok=True)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(_json(value))


def repair_run(folder: Path) -> list[Dropped]:
    """Drop the lines that cannot be used, in all parts; what each file lost, where it lost any."""
    run = open_run(folder, check=False)
    parts = [lost for part in run.experiment.parts(run) for lost in repair_run(part)]
    dropped = repair_ledgers(folder, run.ledgers)
    if dropped:
        (folder / SHARD).unlink(missing_ok=True)  # it is no longer finished
    return parts + dropped
