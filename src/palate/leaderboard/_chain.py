"""A hash chain over the raw lines of a run: each link is the hash of the one before and of the next line.

With the number of lines and the last link written down at one moment, anybody can tell later whether these lines are
still the same, and whether the file only grew since. It says nothing about what happened before that moment: whoever
edits a run before anybody has its links can make a chain that fits.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from palate.records import PalateError
from palate.runs import Run


class Link(msgspec.Struct, frozen=True):
    """The end of the chain over the first lines of a file."""

    lines: int
    hash: str


Chain = dict[str, Link]
"""By the name of the file."""


def chain_of(run: Run[Any]) -> Chain:
    """The chains of a run's settings and of every ledger."""
    files = ["settings.json", *(ledger.name for ledger in run.ledgers)]
    return {name: link_of(run.folder / name) for name in files}


def link_of(file: Path, lines: int | None = None) -> Link:
    """The link after the first `lines` lines of a file, or after all whole lines; empty for a missing file."""
    link, count = b"", 0
    try:
        with file.open("rb") as stream:
            for line in stream:
                if (lines is not None and count == lines) or not line.endswith(b"\n"):
                    break
                link = hashlib.sha256(link + line).digest()
                count += 1
    except FileNotFoundError:
        pass
    except OSError as error:
        raise PalateError(f"cannot read {file}: {error.strerror or error}") from error
    return Link(count, link.hex())


def seal_of(chain: Chain) -> str:
    """One hash for the whole run, to be quoted where a run is handed over."""
    return hashlib.sha256(msgspec.json.encode(chain, order="deterministic")).hexdigest()


def changes(folder: Path, before: Chain, now: Chain) -> list[str]:
    """In words, which files are no longer what they were: grown, or edited."""
    found = []
    for name, link in before.items():
        current = now.get(name, Link(0, ""))
        if current == link:
            continue
        if current.lines >= link.lines and link_of(folder / name, link.lines) == link:
            found.append(f"{name} has grown by {current.lines - link.lines:,} lines")
        else:
            found.append(f"{name} was edited: its first {link.lines:,} lines are not those that were recorded")
    return found + [f"{name} is new" for name, link in now.items() if name not in before and link.lines]
