"""What was pushed to a hub from this machine, so that whoever forgets a user is told where else they are.

Each push is noted before it is sent, and once more with its commit when it has arrived.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

import msgspec
import platformdirs

from palate.records import PalateError

REFUSED = "refused"
"""Stands for the commit of a push of which it is certain that nothing arrived."""
What = Literal["benchmark", "run"]


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """One push. It names no user."""

    time: str
    """UTC, ISO 8601."""
    what: What
    name: str
    source: str
    """The folder or spec that was pushed, as an absolute path where it is one."""
    content_hash: str
    """Of the benchmark, or of the one that the run is about."""
    address: str
    """Where it can be seen."""
    public: bool
    commit: str | None
    """None as long as it is not known to have arrived."""

    @property
    def sentence(self) -> str:
        """Where it went and when."""
        seen = "public" if self.public else "private"
        if self.commit is None:
            return (
                f"a push of {self.name} to {self.address} ({seen}) was begun on {self.time[:10]} and may have arrived"
            )
        return f"{self.name} was pushed to {self.address} ({seen}) on {self.time[:10]}"

    @property
    def out_of_reach(self) -> str:
        """What a receipt says of it."""
        return (
            f"{self.sentence}: palate cannot erase there. Erase here first, then delete the data set there and push "
            "again; a push alone leaves the user in its earlier commits, and copies that others took stay theirs"
        )


def pushed_file() -> Path:
    """Where pushes are noted."""
    return Path(platformdirs.user_data_dir("palate")) / "pushed.jsonl"


def note_push(pushed: Pushed) -> None:
    """Note it for the owner's eyes only; refused where it cannot be noted, since nobody would be told later."""
    file = pushed_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as stream:
            stream.write(msgspec.json.encode(pushed) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise PalateError(
            f"the push cannot be noted in {file} ({error.strerror or error}), and `palate forget` could not tell of it "
            "later. Nothing was sent."
        ) from error


def read_pushes() -> list[Pushed]:
    """The last push of each source to each address, oldest first."""
    try:
        lines = pushed_file().read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PalateError(f"{pushed_file()} cannot be read: {error.strerror or error}") from error
    found: dict[tuple[str, str], list[Pushed]] = {}
    for line in lines:
        try:
            pushed = msgspec.json.decode(line, type=Pushed)
        except msgspec.DecodeError:  # torn by a crash, before anything was sent
            continue
        every = found.setdefault((pushed.source, pushed.address), [])
        if every and every[-1].commit is None and pushed.commit is not None:  # how that one ended
            every.pop()
        if pushed.commit != REFUSED:
            every.append(pushed)
    return sorted((every[-1] for every in found.values() if every), key=lambda pushed: pushed.time)


def pushes_of(folder: Path, content_hashes: Collection[str] = ()) -> list[Pushed]:
    """What was pushed from a folder or from inside of it, and benchmarks with one of these contents."""
    folder = folder.resolve()
    return [
        pushed
        for pushed in read_pushes()
        if Path(pushed.source).is_relative_to(folder)
        or (pushed.what == "benchmark" and pushed.content_hash in content_hashes)
    ]
