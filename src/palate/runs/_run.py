"""A run: a folder that is named by its settings. It is begun once, resumed, and never mistaken for another's.

    settings.json   resolved settings, versions and hashes
    *.jsonl         ledgers, which grow by whole lines only
    report.html     the report, and beside it report.md, results.csv and summary.json
    command.txt     the command line that makes it again, where a command made it
    spent.json      what models took: the one file that is another on every run
    finished.json   the summary of a finished run, so that the same command answers at once

A last line torn by a crash is dropped and made again; any other line that cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from palate import __version__
from palate.data import Digests
from palate.records import Card, PalateError, current_command
from palate.runs._finished import Finished, still_finished
from palate.runs._ledger import Appender, Keys, Ledger, Line, locked, remove_drafts, write_whole
from palate.runs._settings import HashedSettings, environment, file_name
from palate.runs._setup import ItemType
from palate.runs._spent import EVERY, SpentKeeper, first_of, in_two_passes, is_first, keeping_spent
from palate.storage import hold, is_plain
from palate.views import Budget

if TYPE_CHECKING:
    from palate.runs._experiment import Experiment

FORMAT = 3
COMMAND = "command.txt"
"""The command line that makes a run again."""
LATEST = "latest"
"""Stands for the newest run, wherever a run is asked for."""
BAD = ".bad"
"""What is added to a file's name for the lines that a repair dropped from it."""
LOST = "Items whose lines in items.jsonl are lost: {count}. Run the same command again to put them back."
"""What a run says of itself while it lacks items."""


class RunSettings(HashedSettings, frozen=True, kw_only=True):
    """What the settings of every kind of run hold. Two runs with the same hash measure the same thing."""

    kind: str
    benchmark: Card
    content_hash: str
    seed: Annotated[int, msgspec.Meta(ge=0)]
    palate: str = __version__
    format: int = FORMAT

    @property
    def label(self) -> str:
        """What a folder's name says of the run, beside the benchmark."""
        return self.kind

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with the hash at its end."""
        return "-".join(filter(None, (file_name(self.benchmark.name), self.label, self.hash)))


class ViewedSettings(RunSettings, frozen=True, kw_only=True):
    """What the settings of every run that shows users to models hold."""

    retriever: str
    retriever_fingerprint: str
    """Empty where no view picks anything from a history."""
    writer: str | None
    """The language model that writes personas and plans, where a view asks for them."""
    budget: Budget | None
    limit: int | None


SettingsType = TypeVar("SettingsType", bound=RunSettings)
Content = Callable[[], Iterable[bytes]] | Iterable[bytes]
"""The lines of a file. What makes them as often as they are asked for keeps a large one from being held whole."""


class _Settled(msgspec.Struct, frozen=True):
    settings: msgspec.Raw
    environment: dict[str, str]


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""
    format: int = 0


class Checked(NamedTuple):
    """What was read of a ledger."""

    size: int
    """Of the file, when it was read: it only ever grows, or loses a torn line."""
    keys: Keys


class Run(Generic[SettingsType]):
    """The folder of one measurement."""

    def __init__(self, folder: Path, settings: SettingsType, experiment: Experiment[Any, Any]) -> None:
        self.folder, self.settings, self.experiment = folder, settings, experiment
        self.first = -1
        """Where its first items end, which are measured before all others."""
        self.finished: Finished | None = None
        """What it came to, where `begin_run` found it finished."""
        self.checked: dict[str, Checked] = {}
        """What `begin_run` read of the ledgers to check them, so that a writer need not read them again."""

    def read(self, ledger: Ledger[Line]) -> Iterator[Line]:
        """Every line of a ledger, each key once."""
        return ledger.read(self.folder)

    def lines(self, ledger: Ledger[Line]) -> dict[Any, Line]:
        """The lines of a ledger by their keys."""
        assert ledger.key is not None
        return {ledger.key(line): line for line in ledger.read(self.folder)}

    @property
    def ledgers(self) -> list[Ledger[Any]]:
        """The files that grow by lines, each after those that it needs."""
        return list(self.experiment.ledgers(self.settings))

    def check(self) -> dict[str, Checked]:
        """Raise PalateError where a line cannot be read, or was made from another that is lost; else the keys of all.

        What was made is read before what it was made from, since another process may be adding to both.
        """
        needed: dict[str, Keys] = {}
        items = Digests()
        found: dict[str, Checked] = {}
        for ledger in reversed(self.ledgers):
            keys = ledger.no_keys(items)
            found[ledger.name] = Checked(_size(self.folder / ledger.name), keys)
            for line in ledger.read(self.folder, keys):
                if ledger.needs is not None:
                    other = ledger.needs.ledger
                    if other.name not in needed:
                        needed[other.name] = other.no_keys(items)
                    needed[other.name].update(ledger.needs.keys(line))
            if ledger.name in needed and (lost := needed.pop(ledger.name).without(keys)):
                raise PalateError(
                    f"{self.folder / ledger.name} lacks {lost} of the lines that others in this folder were made from. "
                    f"Put the file back from a copy. Or run palate report {self.folder} --repair: it drops what was "
                    "made from them, and says how much."
                )
        return found

    def two_passes(
        self,
        items: Sequence[ItemType],
        every: Sequence[ItemType],
        most_remembered: Callable[[], int] | None = None,
    ) -> Iterator[Sequence[ItemType]]:
        """The first of these items and, once it is told what they took, the others; `every` are those of all shards."""
        self.first = first_of(item.id for item in every)
        return in_two_passes(items, self.first, most_remembered)

    def pass_of(self, item: str) -> int:
        """In which of the two passes over the run an item is measured: 0 or 1."""
        return int(not is_first(item, self.first))

    def lost_items(self, known: Iterable[str], referred: Iterable[str]) -> int:
        """How many items the run no longer holds, by lines that refer to them and by lines that were dropped."""
        beside = self.folder / f"items.jsonl{BAD}"
        dropped = beside.read_bytes().count(b"\n") if beside.is_file() else 0
        return max(dropped, len(set(referred) - set(known)))

    @contextmanager
    def writing(self) -> Iterator[RunWriter]:
        """Add to the run. One process at a time; whatever is written stays written."""
        writer = RunWriter(self)
        remove_drafts(self.folder)
        try:
            if not self.experiment.has_report:  # what is drawn here is drawn for another run, which counts it
                yield writer
                return
            with keeping_spent(self.folder) as keeper:
                writer.keeper = keeper
                yield writer
        finally:
            writer.close()

    def _restore(self, files: Mapping[str, Callable[[], Iterable[bytes]]]) -> None:
        """Write the ledgers that follow from the settings again where they are damaged or lack lines."""
        names = [ledger.name for ledger in self.ledgers]
        for name in (name for name in files if name in names):
            file, beside = self.folder / name, self.folder / (name + BAD)
            try:
                if not _holds(file, files[name]()):
                    with locked(self.folder / name for name in names):
                        write_whole(file, files[name]())
                beside.unlink(missing_ok=True)
            except OSError as error:
                raise PalateError(f"cannot write to {self.folder}: {error.strerror or error}") from error


class RunWriter:
    """The ledgers of a run while it is measured: what is there, and a way to add to it."""

    def __init__(self, run: Run[Any]) -> None:
        self.keeper: SpentKeeper | None = None
        """Counts what the models take that fill the ledgers."""
        self._run = run
        self._appenders: dict[str, Appender] = {}
        self._keys: dict[str, Keys] = {}
        self._lines: dict[str, dict[Hashable, Any]] = {}
        try:
            for ledger in run.ledgers:
                if ledger.about != "items":
                    self._appenders[ledger.name] = Appender(run.folder / ledger.name)
        except PalateError:
            self.close()
            raise

    def keys(self, ledger: Ledger[Any]) -> Keys:
        """What is there, and needs not be made again."""
        if ledger.name not in self._keys:
            checked = self._run.checked.pop(ledger.name, None)
            same = checked is not None and checked.size == _size(self._run.folder / ledger.name)
            self._keys[ledger.name] = checked.keys if checked and same else ledger.keys(self._run.folder)
        return self._keys[ledger.name]

    def lines(self, ledger: Ledger[Line]) -> dict[Any, Line]:
        """The lines that are there, by their keys."""
        if ledger.name not in self._lines:
            self._lines[ledger.name] = dict(self._run.lines(ledger))
        return self._lines[ledger.name]

    def add(self, ledger: Ledger[Line], lines: Iterable[Line]) -> None:
        """Keep the lines that are not there yet; when this returns they are on the disk."""
        assert ledger.key is not None
        keys = self.keys(ledger)
        new = keys.new({ledger.key(line): line for line in lines})
        self._appenders[ledger.name].append(list(new.values()))
        keys.take(new)
        if ledger.name in self._lines:
            self._lines[ledger.name].update((ledger.key(line), line) for line in new.values())
        if self.keeper is not None:
            self.keeper.save(due=EVERY)

    def close(self) -> None:
        """Let another process write."""
        for appender in self._appenders.values():
            appender.close()
        self._keys.clear()
        self._lines.clear()


_BEGUN: ContextVar[Callable[[Path], None] | None] = ContextVar("begun", default=None)


@contextmanager
def hearing_of_runs(listener: Callable[[Path], None]) -> Iterator[None]:
    """Tell the listener the folder of every run that is begun or resumed in here."""
    token = _BEGUN.set(listener)
    try:
        yield
    finally:
        _BEGUN.reset(token)


def begin_run(
    parent: Path,
    experiment: Experiment[SettingsType, Any],
    settings: SettingsType,
    files: Mapping[str, Content] | None = None,
) -> Run[SettingsType]:
    """The run with exactly these settings: begun now, with these files, resumed, or found finished."""
    makers = {name: _maker(content) for name, content in (files or {}).items()}
    run = Run(parent / settings.folder_name, settings, experiment)
    hold(run.folder, [ledger.name for ledger in run.ledgers])
    if (listener := _BEGUN.get()) is not None:
        listener(run.folder)
    file = run.folder / "settings.json"
    if file.exists():
        if _settled(run.folder, experiment.settings) != settings:
            raise PalateError(
                f"{file} has been changed: its settings are not those that its folder is named after. "
                "Put it back, or move the folder away and run again."
            )
        run.finished = still_finished(run.folder, [ledger.name for ledger in run.ledgers])
        if run.finished is None:
            run._restore(makers)
            run.checked = run.check()
        return run
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        for name, make in makers.items():
            write_whole(run.folder / name, make())
        settled = _Settled(msgspec.Raw(msgspec.json.encode(settings)), environment())
        if line := current_command():
            write_whole(run.folder / COMMAND, f"{line}\n".encode("utf-8", "replace"))
        write_whole(file, msgspec.json.format(msgspec.json.encode(settled), indent=2) + b"\n")
    except OSError as error:
        raise PalateError(
            f"cannot write to {run.folder}: {error.strerror or error}. Choose another place with --out."
        ) from error
    return run


def find_run(folder: str | Path) -> Path:
    """A run folder as people name it: `latest` is the newest in `runs`, and `elsewhere/latest` the newest in there."""
    named = Path(folder)
    if named.name != LATEST or named.exists():
        return named
    parent = named.parent if len(named.parts) > 1 else Path("runs")
    if not parent.is_dir():
        raise PalateError(f"no such folder: {parent}, so there is no latest run in it. Name a run folder.")
    runs = [file.parent for file in parent.glob("*/settings.json")]
    if not runs:
        raise PalateError(f"{parent} holds no run, so there is no latest one. `palate eval` makes one.")
    return max(runs, key=lambda run: (last_change(run), run.name))


def find_in_run(path: str | Path) -> Path:
    """A path in a run folder, in which `latest` may stand for the run: `trained/latest/models/per-user`."""
    named = Path(path)
    if LATEST not in named.parts or named.exists():
        return named
    end = named.parts.index(LATEST) + 1
    return find_run(Path(*named.parts[:end])).joinpath(*named.parts[end:])


def last_change(folder: Path) -> float:
    """When anything was last added to a run, in seconds since 1970."""
    return max(file.stat().st_mtime for file in (folder / "settings.json", *folder.glob("*.jsonl")) if file.is_file())


def _maker(content: Content) -> Callable[[], Iterable[bytes]]:
    if callable(content):
        return content
    lines = list(content)
    return lambda: lines


def kind_of(folder: Path) -> str:
    """Which kind of run a folder holds; refused where it holds none, or one that this palate cannot read."""
    file = folder / "settings.json"
    if not folder.exists():
        inside = Path("runs", folder)
        known = f"Did you mean {inside}?" if inside.exists() else "`palate runs` lists the runs in the folder runs."
        raise PalateError(f"no such folder: {folder}. {known}")
    if not file.is_file():
        refuse_folder_of_runs(folder)
        raise PalateError(
            f"{folder} is not a run: it has no settings.json. `palate eval` and other commands make runs."
        )
    try:
        settled = msgspec.json.decode(file.read_bytes(), type=_Settled)
        kind = msgspec.json.decode(settled.settings, type=_Kind)
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read as the settings of a run: {error}") from error
    if kind.format != FORMAT:
        raise PalateError(
            f"{folder} was made by another version of palate (format {kind.format}; this one reads format {FORMAT}). "
            "Run the command that made it again."
        )
    return kind.kind


def refuse_folder_of_runs(folder: Path) -> None:
    """PalateError where a folder is no run and holds some."""
    if not (folder / "settings.json").is_file() and any(folder.glob("*/settings.json")):
        raise PalateError(
            f"{folder} is not a run: it is a folder of runs. Name one of them, such as {folder / LATEST} for the "
            f"newest. To list them: palate runs {folder}"
        )


def _settled(folder: Path, settings: type[SettingsType]) -> SettingsType:
    file = folder / "settings.json"
    try:
        settled = msgspec.json.decode(file.read_bytes(), type=_Settled)
        return msgspec.json.decode(settled.settings, type=settings)
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise PalateError(f"{file} cannot be read as the settings of a run: {error}") from error


def beside(folder: Path, name: str) -> Path:
    """A run that another one names as a part. Others' runs name what they like, so it has to lie beside that one."""
    if not is_plain(name):
        raise PalateError(f"{folder} names {name!r} as a run that it is made of, which does not lie beside it")
    return folder.resolve().parent / name


def json_lines(structs: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    """A line of JSON for each."""
    encoder = msgspec.json.Encoder()
    return (encoder.encode(struct) + b"\n" for struct in structs)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _holds(file: Path, lines: Iterable[bytes]) -> bool:
    """Whether a file holds just these lines."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return all(own == line for own, line in zip_longest(stream, lines))
