"""The lines of one folder that are a user's, gathered file by file, with notes on what is not given and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from palate.privacy._person import Person
from palate.privacy._rewrite_lines import Row, dropped_lines, read_rows
from palate.records import PalateError

WITHHELD = (
    "{path}: {count} lines on this user's items were made while somebody else's profile was shown and may repeat it, "
    "so they are not in here"
)
QUOTING = "{path}: {count} lines of others hold a text that this user wrote; being about others, they are not in here"
TORN = "{path}: {count} lines cannot be read, so it is not known whose they are"


class RunExport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run, or one folder of samples, holds on a user: lines as they stand in its files.

    A key is named after the file that its lines are from; the last two are from `summary.json`.
    """

    run: str
    kind: str
    """`evaluation`, `best-of-n`, `guide`, `ppo` or `samples`."""
    files: dict[str, int]
    """By file, how many of its entries are here."""
    items: list[Row]
    ratings: list[Row]
    views: list[Row]
    """Views that show this user, also those that were put in another user's place."""
    parts: dict[str, str]
    """The texts of those views."""
    samples: list[Row] = []
    """What a policy wrote, also for runs that share it."""
    generations: list[Row] = []
    likelihoods: list[Row] = []
    rewards: list[Row] = []
    outcomes: list[Row] = []
    marks: list[Row] = []
    split: Row = {}
    """On which side of a training run the user is, and with which items."""
    held_out: list[Row] = []
    examples: list[Row] = []
    user_accuracies: list[Row] = []


class Reading:
    """One folder while it is read: the lines that are the user's, and what is left out."""

    def __init__(self, folder: Path, person: Person, notes: list[str]) -> None:
        self.folder, self.person, self.notes = folder, person, notes
        self.lines: dict[str, Any] = {"items": [], "ratings": [], "views": [], "parts": {}}
        self.files: dict[str, int] = {}
        self._withheld = self._quoting = 0

    def rows(self, name: str) -> list[Row]:
        """All lines of a file; what cannot be read is noted."""
        file = self.folder / name
        if not file.is_file():
            return []
        try:
            rows, lines = read_rows(file), sum(bool(line.strip()) for line in file.read_bytes().splitlines())
        except OSError as error:
            raise PalateError(f"cannot read {file}: {error.strerror or error}") from error
        self.note(TORN, lines - len(rows), file)
        return rows

    def take(
        self,
        name: str,
        rows: Iterable[Row],
        mine: Callable[[Row], bool],
        strange: Callable[[Row], bool] = lambda row: False,
    ) -> list[Row]:
        """Keep the user's lines of a file, but for those that may tell of somebody else."""
        kept = []
        for row in rows:
            if not mine(row):
                self._quoting += any(own in text for text in _said(row) for own in self.person.wrote)
            elif strange(row):
                self._withheld += 1
            else:
                kept.append(row)
        if kept:
            self.put(name, kept)
        return kept

    def put(self, name: str, found: list[Row], key: str = "") -> None:
        """Say which file something is from."""
        self.lines[key or Path(name).stem] = found
        self.files[str(self.folder / name)] = len(found)

    def summary(self, key: str, mine: Callable[[Row], bool]) -> None:
        """Entries of the report that are about this user."""
        try:
            held = msgspec.json.decode((self.folder / "summary.json").read_bytes(), type=dict[str, object])
        except FileNotFoundError:
            return
        except (msgspec.DecodeError, OSError) as error:
            raise PalateError(f"{self.folder / 'summary.json'} cannot be read: {error}") from error
        entries = held.get(key)
        kept = [row for row in entries if isinstance(row, dict) and mine(row)] if isinstance(entries, list) else []
        if kept:
            self.put("summary.json", kept, key)

    def note(self, text: str, count: int, path: Path | None = None) -> None:
        """Say what is not given, where there is anything."""
        if count:
            self.notes.append(text.format(path=path or self.folder, count=count))

    def done(self, kind: str) -> RunExport:
        """All of it."""
        self.note(WITHHELD, self._withheld)
        self.note(QUOTING, self._quoting)
        for file, count in dropped_lines(self.folder).items():
            self.note(TORN, count, file)
        content = {"run": str(self.folder), "kind": kind, "files": self.files, **self.lines}
        return msgspec.convert(content, RunExport)


def _said(row: Row) -> list[str]:
    """The texts of a line, whatever file it is from."""
    rating = row.get("rating")
    raw = rating.get("raw") if isinstance(rating, dict) else None
    lists = [several for name in ("responses", "texts") if isinstance(several := row.get(name), list)]
    found = [row.get("prompt"), row.get("text"), raw, *(text for several in lists for text in several)]
    return [text for text in found if isinstance(text, str)]
