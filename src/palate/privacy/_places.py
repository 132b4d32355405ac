"""Where a user may lie, and what was taken out of there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from palate.privacy._rewrite_lines import FileChange, Row, dropped_lines, replace, sha256

Kind = Literal["benchmark", "run", "samples", "model", "vectors", "answers", "collection", "export"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One folder or cache, with what was erased from it."""

    kind: Kind
    path: str
    erased: dict[str, int]
    files: list[FileChange] = []
    left: list[str] = []
    """What could not be erased here, and why."""

    @property
    def total(self) -> int:
        """How many things were erased."""
        return sum(self.erased.values())


class Tally:
    """Counts and changed files while a place is being worked through."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.files: list[FileChange] = []

    def changed(self, change: FileChange | None) -> None:
        """Note a file that was rewritten."""
        if change is not None:
            self.files.append(change)

    def place(self, kind: Kind, path: Path, left: Iterable[str] = ()) -> Place:
        """What came of it."""
        erased = {name: count for name, count in sorted(self.counts.items()) if count}
        return Place(kind=kind, path=str(path), erased=erased, files=self.files, left=list(left))


def linked_folders(folder: Path) -> list[Path]:
    """Links to folders elsewhere: nothing behind them is searched or changed."""
    return sorted(one for one in folder.rglob("*") if one.is_symlink() and one.is_dir())


def linked_files(folder: Path) -> list[str]:
    """What other names keep after a file is replaced: the target of a symbolic link, and hard links elsewhere."""
    left = [
        f"{one} is a link to the folder {one.resolve()}, in which nothing was searched or erased: name that folder, too"
        for one in linked_folders(folder)
    ]
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        if file.is_symlink():
            left.append(f"{file} was a link to {file.resolve()}: that file keeps what it holds, and is yours to erase")
        elif (names := file.stat().st_nlink) > 1:
            left.append(f"{file} had {names} names (hard links): under the others, its old content stays")
    return left


def erase_dropped_lines(folder: Path, tally: Tally, *, write: bool) -> None:
    """Empty the lines that a repair dropped, since nobody can tell whose they are; how many there were stays."""
    for file, count in dropped_lines(folder).items():
        if count:
            before = sha256(file)
            tally.counts["lines that could not be read"] += count
            if write:
                replace(file, b"\n" * file.read_bytes().count(b"\n"))
            tally.changed(FileChange(path=str(file), before=before, after=sha256(file)))


class Renaming:
    """Takes the erased items out of the twins and groups of those that stay."""

    def __init__(self, gone: set[str], staying: Iterable[Row]) -> None:
        self._gone = gone
        self._groups: dict[str, str] = {}
        for row in staying:
            group, id = row.get("group"), str(row.get("id"))
            if isinstance(group, str) and group in gone:
                self._groups[group] = min(id, self._groups.get(group, id))

    def __call__(self, row: Row) -> Row:
        """The row itself where it names nothing that is gone."""
        twin, group = row.get("twin"), row.get("group")
        if twin is not None and str(twin) in self._gone:
            row = {name: value for name, value in row.items() if name != "twin"}
        if isinstance(group, str) and group in self._groups:
            row = {**row, "group": self._groups[group]}
        return row
