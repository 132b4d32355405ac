"""An erasure that was decided on, written down before the first file is touched, so that a crash only delays it.

The journal holds the users' ids and texts, for the owner's eyes only, and is the last thing to go.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from palate.data import Pseudonyms
from palate.privacy._person import Person
from palate.privacy._receipt import Receipt
from palate.records import PalateError, cache_folder, unfinished_erasures
from palate.runs import Appender

FORMAT = 1


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to be erased, from where, and what was there of them."""

    users: list[str]
    wrote: list[str]
    met: list[str]
    choices: list[tuple[str, tuple[str, ...]]]
    items: list[str]
    texts: list[str]
    """All whose vectors go."""
    keep_answers: bool
    receipt: Receipt
    """The places with what each held before."""
    receipt_file: str | None
    held: list[str] = []
    """Working copies of folders in a bucket, where the same is erased."""
    format: int = FORMAT

    @property
    def person(self) -> Person:
        """The users as they were gathered before anything was erased."""
        ids = frozenset(self.users)
        return Person(ids, set(self.wrote), set(self.met), set(self.choices), set(ids), set(self.items))


@contextmanager
def erasing() -> Iterator[Path]:
    """The folder of journals, for one process at a time; raises PalateError while another one is erasing."""
    folder = cache_folder() / "forgetting"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise PalateError(f"cannot write to {folder}: {error.strerror or error}") from error
    lock = Appender(folder / "lock")
    try:
        yield folder
    finally:
        lock.close()


def keep(journal: Journal, folder: Path) -> Path:
    """Write it down, on the disk before this returns."""
    file = folder / f"{journal.receipt.time.replace(':', '')}-{secrets.token_hex(4)}.json"
    draft = file.with_suffix(".draft")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(msgspec.json.encode(journal))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
        sync(folder)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise PalateError(
            f"the erasure cannot be written down in {folder}: {error.strerror or error}. Nothing was erased."
        ) from error
    return file


def sync(folder: Path) -> None:
    """Have the disk know which files a folder holds, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_journals(names: Pseudonyms) -> Iterator[tuple[Path, Journal]]:
    """What was not finished, oldest first. Drafts go: nothing had been erased when they were written."""
    for file in unfinished_erasures():
        if file.suffix == ".draft":
            file.unlink()
            continue
        try:
            journal = msgspec.json.decode(file.read_bytes(), type=Journal)
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise PalateError(
                f"{file} cannot be read ({error}). An erasure was interrupted and is not finished: move this file "
                "away and erase the same user again."
            ) from error
        if [names.user(user) for user in journal.users] != journal.receipt.users:
            raise PalateError(
                "an erasure was interrupted that was begun with another key. Set PALATE_PSEUDONYM_KEY, or put the key "
                "file back, as it was then, and run palate forget again."
            )
        yield file, journal
