"""A folder that is named by the settings in it: begun once, gone on with, and never mistaken for another's."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from palate.records import PalateError
from palate.report import Document, document_csv, document_markdown, document_page
from palate.runs._ledger import Ledger, locked
from palate.runs._settings import environment


class FolderSettings(Protocol):
    """Everything that decides what a run measures."""

    @property
    def folder_name(self) -> str:
        """Changes with any of the settings."""


SettingsType = TypeVar("SettingsType", bound=FolderSettings)
BAD = ".bad"
"""What is added to a file's name for the lines that a repair dropped from it."""
LOST = "Items whose lines in items.jsonl are lost: {count}. Run the same command again to put them back."
"""What a run says of itself while it lacks items."""


class _Settled(msgspec.Struct, frozen=True):
    settings: msgspec.Raw
    environment: dict[str, str]


class _Kind(msgspec.Struct, frozen=True):
    kind: str | None = None


class RunFolder(Generic[SettingsType]):
    """Reads the folder of a run; each kind of run adds what it keeps."""

    settings_type: ClassVar[type[Any]]
    kind: ClassVar[str | None] = None
    """What `settings.json` says of its kind."""
    made_by: ClassVar[str]
    """The command that makes such runs."""
    hint: ClassVar[str] = ""

    def __init__(self, folder: Path, settings: SettingsType) -> None:
        self.folder = folder
        self.settings = settings

    @property
    def ledgers(self) -> Sequence[Ledger[Any]]:
        """The files that grow by lines, each after those that it needs."""
        return ()

    @classmethod
    def is_one(cls, folder: Path) -> bool:
        """Whether the folder is a run of this kind, and not of another or none at all."""
        try:
            settled = msgspec.json.decode((folder / "settings.json").read_bytes(), type=_Settled)
            return msgspec.json.decode(settled.settings, type=_Kind).kind == cls.kind
        except (msgspec.DecodeError, OSError):
            return False

    @classmethod
    def open(cls, folder: Path) -> Self:
        """An existing run, to be read; refused where one of its lines cannot be used."""
        run = cls.open_unchecked(folder)
        run.check()
        return run

    @classmethod
    def open_unchecked(cls, folder: Path) -> Self:
        """An existing run whose lines may be damaged."""
        file = folder / "settings.json"
        if not file.is_file():
            raise PalateError(f"{folder} is not a run: it has no settings.json. Such runs are made by {cls.made_by}.")
        try:
            settled = msgspec.json.decode(file.read_bytes(), type=_Settled)
            return cls(folder, msgspec.json.decode(settled.settings, type=cls.settings_type))
        except (msgspec.DecodeError, OSError) as error:
            raise PalateError(f"{file} cannot be read as a run of {cls.made_by}: {error}.{cls.hint}") from error

    @classmethod
    def create_or_resume(cls, parent: Path, settings: SettingsType, files: Mapping[str, bytes]) -> Self:
        """The run with exactly these settings: begun now, with these files, or gone on with."""
        run = cls(parent / settings.folder_name, settings)
        file = run.folder / "settings.json"
        if file.exists():
            if cls.open_unchecked(run.folder).settings != settings:
                raise PalateError(
                    f"{file} has been changed: its settings are not those that its folder is named after. "
                    "Put it back, or move the folder away and run again."
                )
            run._restore(files)
            run.check()
            return run
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write_whole(run.folder / name, content)
            settled = _Settled(msgspec.Raw(msgspec.json.encode(settings)), environment())
            write_whole(file, msgspec.json.format(msgspec.json.encode(settled), indent=2) + b"\n")
        except OSError as error:
            raise PalateError(
                f"cannot write to {run.folder}: {error.strerror or error}. Choose another place with --out."
            ) from error
        return run

    def check(self) -> None:
        """Raise PalateError where a line cannot be read, or was made from another that is lost.

        What was made is read before what it was made from, since another process may be adding to both.
        """
        needed: dict[str, set[Hashable]] = {}
        for ledger in reversed(self.ledgers):
            keys: set[Hashable] = set()
            for line in ledger.read(self.folder):
                if ledger.key is not None:
                    keys.add(ledger.key(line))
                if ledger.needs is not None:
                    needed.setdefault(ledger.needs.ledger.name, set()).update(ledger.needs.keys(line))
            if lost := len(needed.get(ledger.name, set()) - keys):
                raise PalateError(
                    f"{self.folder / ledger.name} lacks {lost} of the lines that others in this folder were made from. "
                    f"Put the file back from a copy. Or run palate report {self.folder} --repair: it drops what was "
                    "made from them, and says how much."
                )

    def _restore(self, files: Mapping[str, bytes]) -> None:
        """Write the ledgers that follow from the settings again where they are damaged or lack lines."""
        names = [ledger.name for ledger in self.ledgers]
        for name in (name for name in files if name in names):
            file, beside = self.folder / name, self.folder / (name + BAD)
            try:
                if not file.is_file() or file.read_bytes() != files[name]:
                    with locked(self.folder / one for one in names):
                        write_whole(file, files[name])
                beside.unlink(missing_ok=True)
            except OSError as error:
                raise PalateError(f"cannot write to {self.folder}: {error.strerror or error}") from error

    def lost_items(self, known: Iterable[str], referred: Iterable[str]) -> int:
        """How many items the run no longer holds, by lines that refer to them and by lines that were dropped."""
        beside = self.folder / f"items.jsonl{BAD}"
        dropped = beside.read_bytes().count(b"\n") if beside.is_file() else 0
        return max(dropped, len(set(referred) - set(known)))


def json_lines(structs: Iterable[msgspec.Struct]) -> bytes:
    """A line of JSON for each."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in structs)


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there in full or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def write_report(folder: Path, summary: msgspec.Struct, page: str, markdown: str) -> Path:
    """Write report.html, report.md and summary.json into a folder; the page's path comes back."""
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    try:
        write_whole(folder / "report.html", page.encode("utf-8", "replace"))
        write_whole(folder / "report.md", markdown.encode("utf-8", "replace"))
        write_whole(folder / "summary.json", encoded)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return folder / "report.html"


def write_document(folder: Path, summary: msgspec.Struct, document: Document) -> Path:
    """Write report.html, report.md, results.csv and summary.json into a folder; the page's path comes back."""
    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    files = {
        "report.html": document_page(document).encode("utf-8", "replace"),
        "report.md": document_markdown(document).encode("utf-8", "replace"),
        "results.csv": document_csv(document).encode("utf-8", "replace"),
        "summary.json": encoded,
    }
    try:
        for name, content in files.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise PalateError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return folder / "report.html"
