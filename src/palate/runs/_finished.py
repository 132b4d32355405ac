"""What a finished run came to, so that the same command answers at once instead of reading and computing all again.

`finished.json` holds the summary with hashes of everything that it follows from: the ledgers, palate's own code and the
packages that compute. It is believed only while all of them are the same. The settings and the data are checked before
by the name of the folder. Whatever else is found, the run is read, checked and summarised as ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

import palate
from palate.runs._settings import environment

FINISHED = "finished.json"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A summary, and what it follows from."""

    made_by: str
    reading: msgspec.Raw
    ledgers: dict[str, str | None]
    """Of each file of lines, the SHA-256; null for one that is not there."""
    summary: msgspec.Raw
    reports: dict[str, str | None] = {}
    """Of each report that was written of this summary, the SHA-256."""


def file_hashes(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """The SHA-256 of each of these files, read a piece at a time."""
    found: dict[str, str | None] = {}
    for name in names:
        found[name] = None
        with suppress(OSError):
            if (folder / name).is_file():
                with (folder / name).open("rb") as stream:
                    found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def read_finished(folder: Path) -> Finished | None:
    """What a folder says of itself, to be compared with what it holds; None where it says nothing that can be read."""
    if not (folder / FINISHED).is_file():
        return None
    try:
        return msgspec.json.decode((folder / FINISHED).read_bytes(), type=Finished)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def still_finished(folder: Path, ledgers: Iterable[str]) -> Finished | None:
    """The same, where the ledgers are byte for byte what was summarised, by the same code."""
    kept = read_finished(folder)
    if kept is None or kept.made_by != made_by() or any(folder.glob("*.bad")):
        return None
    return kept if kept.ledgers == file_hashes(folder, ledgers) else None


def has_reports(kept: Finished, folder: Path, summary: bytes) -> bool:
    """Whether the reports are those that were written of this summary."""
    return bool(kept.reports) and bytes(kept.summary) == summary and kept.reports == file_hashes(folder, kept.reports)


@cache
def made_by() -> str:
    """A hash that changes with any file of palate, those that pages are made from among them, and with the packages
    that compute: by a file's size and time, since a version number stays the same while palate is worked on."""
    root = Path(palate.__file__).parent
    files = sorted((file, file.stat()) for file in root.rglob("*") if file.is_file() and file.suffix != ".pyc")
    code = [(str(file.relative_to(root)), stat.st_size, stat.st_mtime_ns) for file, stat in files]
    versions: Mapping[str, str] = environment()
    return hashlib.sha256(msgspec.json.encode((palate.__version__, code, sorted(versions.items())))).hexdigest()
