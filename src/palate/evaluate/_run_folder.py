"""A folder that is named by the settings in it: begun once, gone on with, and never mistaken for another's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from palate.evaluate._settings import environment
from palate.records import PalateError


class FolderSettings(Protocol):
    """Everything that decides what a run measures."""

    @property
    def folder_name(self) -> str:
        """Changes with any of the settings."""


SettingsType = TypeVar("SettingsType", bound=FolderSettings)


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
        """An existing run, to be read."""
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
            if cls.open(run.folder).settings != settings:
                raise PalateError(
                    f"{file} has been changed: its settings are not those that its folder is named after. "
                    "Put it back, or move the folder away and run again."
                )
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
