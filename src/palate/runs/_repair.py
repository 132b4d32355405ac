"""Dropping the lines of a folder that cannot be used, and all that was made from them, so that they are made again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.records import PalateError
from palate.runs._ledger import Ledger, locked, scan_lines, write_whole
from palate.runs._run import BAD


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """What one file lost."""

    file: str
    bad: int
    """Lines that could not be read, or that contradict an earlier one."""
    orphans: int
    """Sound lines that were made from lines that are lost, here or in another file."""


def repair_ledgers(folder: Path, ledgers: Sequence[Ledger[Any]]) -> list[Dropped]:
    """Write each file again without the lines that cannot be used; those are kept beside it, in `NAME.bad`.

    Ledgers come after those that they need. Refused while another process writes to the folder.
    """
    kept: dict[str, set[Hashable]] = {}
    found = []
    with locked(folder / ledger.name for ledger in ledgers):
        for ledger in ledgers:
            file = folder / ledger.name
            keys: set[Hashable] = set()
            good: list[bytes] = []
            bad: list[bytes] = []
            orphans: list[bytes] = []
            for number, raw, line, *_ in scan_lines(file, ledger.line, ledger.key):
                if line is None:
                    bad.append(raw)
                elif ledger.needs and any(key not in kept[ledger.needs.ledger.name] for key in ledger.needs.keys(line)):
                    orphans.append(raw)
                else:
                    good.append(raw)
                    keys.add(ledger.key(line) if ledger.key else number)
            kept[ledger.name] = keys
            if bad or orphans:
                _write(file, good, [*bad, *orphans])
                found.append(Dropped(file=str(file), bad=len(bad), orphans=len(orphans)))
    return found


def _write(file: Path, good: Sequence[bytes], dropped: Sequence[bytes]) -> None:
    beside = file.with_name(file.name + BAD)
    try:
        before = beside.read_bytes() if beside.is_file() else b""
        write_whole(beside, before + b"".join(dropped))
        write_whole(file, b"".join(good))
    except OSError as error:
        raise PalateError(f"cannot write to {file.parent}: {error.strerror or error}") from error
