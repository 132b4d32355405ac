"""What runs of every kind hold on one user, and the samples that runs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.privacy._person import Person
from palate.privacy._rewrite_lines import Row, dropped_lines, read_rows
from palate.privacy._run_folder import (
    ViewKey,
    entries_of,
    neighbours_of,
    shared_samples,
    shown_by,
    shown_in,
    texts_of,
    without,
)
from palate.records import Benchmark, PalateError
from palate.runs import Ledger, Progress, Run, open_run

BORROWED = (
    "{path}: {count} lines on others' items were made while this user's profile was shown; being about others, they "
    "are not in here"
)
WITHHELD = (
    "{path}: {count} lines on this user's items were made while somebody else's profile was shown and may repeat it, "
    "so they are not in here"
)
QUOTING = "{path}: {count} lines of others hold a text that this user wrote; being about others, they are not in here"
TORN = "{path}: {count} lines cannot be read, so it is not known whose they are"
WEIGHTS = (
    "{path} was trained on this user's prompts and on what was shown of them; what its weights keep of that cannot be "
    "told apart, and is not in here"
)
UNKNOWN = "{path}: {count} items are in neither the benchmark nor the runs, so it is not known whose they are"
TABLE = "{path} is a table over all users; what it is made of is in here, from: {parts}"
NO_RUN = (
    "it is not known whose the samples in {path} are, which were drawn from another benchmark or from another state of "
    "this one. Name a run that used them, too: --run RUN"
)

Owners = dict[str, dict[str, str]]
"""By the content hash of a benchmark and the id of an item: whose it is."""


class RunExport(msgspec.Struct, frozen=True, kw_only=True):
    """What one run, or one folder of samples, holds on a user: lines as they stand in its files."""

    run: str
    kind: str
    """As `palate list experiments` names it; `samples` for those that runs share."""
    files: dict[str, int]
    """By file, how many of its entries are here."""
    lines: dict[str, list[Row]]
    """By the name of the file without its ending, or of the list in `summary.json`; of views also those that were put
    in another user's place."""


def export_runs(
    benchmark: Benchmark, person: Person, folders: Sequence[Path], progress: Progress
) -> tuple[list[RunExport], list[str]]:
    """One for each run, part of a table and folder of samples; and the notes."""
    notes: list[str] = []
    opened = [run for folder in folders for run in _with_parts(open_run(folder), notes)]
    named = [run for run in opened if run.experiment.kind == "samples"]
    runs = _each_once(run for run in opened if run not in named)
    # Where a comparison and a completion share an id, every run takes the comparison.
    owner = {item.id: item.user_id for item in benchmark.completions}
    owner |= {item.id: item.user_id for item in benchmark.comparisons}
    owners: Owners = {benchmark.content_hash: owner}
    found = []
    for place, run in enumerate(runs):
        progress(f"reading {run.folder}", place, len(runs) + 1)
        found.append(_Export(run, person, notes).of_run(owners))
    progress("reading samples", len(runs), len(runs) + 1)
    beside = [open_run(samples) for run in runs for samples in shared_samples(run.folder.resolve())]
    for samples in _each_once([*named, *beside]):
        drawn_from = samples.settings.content_hash
        if samples in named and drawn_from not in owners:
            raise PalateError(NO_RUN.format(path=samples.folder))
        found.append(_Export(samples, person, notes).of_samples(owners.get(drawn_from, {})))
    return found, notes


class _Export:
    """One folder while it is read: the lines that are the user's, and what is left out."""

    def __init__(self, run: Run[Any], person: Person, notes: list[str]) -> None:
        self._run, self._person, self._notes = run, person, notes
        self._lines: dict[str, list[Row]] = {}
        self._files: dict[str, int] = {}
        self._withheld = self._quoting = 0

    def of_run(self, owners: Owners) -> RunExport:
        """What one run holds; whose its items are is added to what is known of its benchmark."""
        run, user = self._run, self._person.id
        ledgers = {about: [one for one in run.ledgers if one.about == about] for about in ("items", "views", "parts")}
        own: set[str] = set()
        for ledger in ledgers["items"]:
            if not (run.folder / ledger.name).is_file():
                raise PalateError(
                    f"{run.folder} has no {ledger.name}, so it is not known whose its lines are. Put the file back."
                )
            items = self._rows(ledger)
            known = owners.setdefault(run.settings.content_hash, {})
            known.update((str(row.get("id")), str(row.get("user_id"))) for row in items)
            own |= {str(row.get("id")) for row in self._take(ledger, items, lambda row: row.get("user_id") == user)}
        strange: set[ViewKey] = set()
        borrowed: set[ViewKey] = set()
        parts: set[str] = set()
        for ledger in ledgers["views"]:
            views = self._rows(ledger)
            strange |= {shown_by(row) for row in views if self._shows_others(row)}
            borrowed |= {shown_by(row) for row in views if self._shows_user(row) and _item(row) not in own}
            shown = self._take(
                ledger,
                views,
                lambda row: _item(row) in own or (row.get("user_id") == user and not self._shows_others(row)),
                self._shows_others,
            )
            parts |= {str(key) for row in shown if isinstance(keys := row.get("parts"), list) for key in keys}
        for ledger in ledgers["parts"]:
            self._take(ledger, self._rows(ledger), lambda row: str(row.get("key")) in parts)
        for ledger in (one for one in run.ledgers if one.about == "item"):
            rows = self._rows(ledger)
            self._note(BORROWED, sum(bool(borrowed & _shown_anywhere(row)) for row in rows), run.folder / ledger.name)
            self._take(
                ledger,
                [self._without_strangers(row, strange) for row in rows],
                lambda row: _item(row) in own,
                lambda row: bool(strange & set(shown_in(row))) or self._shows_others(row),
            )
        if run.experiment.refuse_to_forget(run, user):
            self._notes.append(WEIGHTS.format(path=run.folder))
        self._summary(lambda row: row.get("user_id") == user or _item(row) in own)
        return self._done()

    def of_samples(self, owner: dict[str, str]) -> RunExport:
        """Samples that runs share, whose items the benchmark and the runs tell."""
        user = self._person.id
        for ledger in self._run.ledgers:
            rows = self._rows(ledger)
            self._note(UNKNOWN, len({_item(row) for row in rows} - owner.keys()))
            self._take(ledger, rows, lambda row: owner.get(_item(row)) == user, self._shows_others)
            self._note(BORROWED, sum(map(self._shows_user, rows)))
        return self._done()

    def _shows_others(self, row: Row) -> bool:
        """Whether a stranger, or neighbours, were shown when this line was made."""
        shown = {row.get("user_id"), row.get("stranger"), *neighbours_of(row)}
        return not shown <= {None, self._person.id}

    def _shows_user(self, row: Row) -> bool:
        return self._person.id in (row.get("user_id"), row.get("stranger"), *neighbours_of(row))

    def _rows(self, ledger: Ledger[Any]) -> list[Row]:
        """All lines of a file; what cannot be read is noted."""
        file = self._run.folder / ledger.name
        if not file.is_file():
            return []
        try:
            rows, lines = read_rows(file), sum(bool(line.strip()) for line in file.read_bytes().splitlines())
        except OSError as error:
            raise PalateError(f"cannot read {file}: {error.strerror or error}") from error
        self._note(TORN, lines - len(rows), file)
        return rows

    def _take(
        self,
        ledger: Ledger[Any],
        rows: Iterable[Row],
        mine: Callable[[Row], bool],
        strange: Callable[[Row], bool] = lambda row: False,
    ) -> list[Row]:
        """Keep the user's lines of a file, but for those that may tell of somebody else."""
        kept = []
        for row in rows:
            if not mine(row):
                self._quoting += any(own in text for text in texts_of(row) for own in self._person.wrote)
            elif strange(row):
                self._withheld += 1
            else:
                kept.append(row)
        if kept:
            self._put(ledger.name, kept, Path(ledger.name).stem)
        return kept

    def _put(self, name: str, found: list[Row], key: str) -> None:
        self._lines.setdefault(key, []).extend(found)
        file = str(self._run.folder / name)
        self._files[file] = self._files.get(file, 0) + len(found)

    def _without_strangers(self, row: Row, strange: set[ViewKey]) -> Row:
        """A line without entries of its lists that were made while a stranger was shown, which may repeat them."""
        return without(
            row,
            [
                entry
                for entry in entries_of(row)
                if entry.get("user_id") not in (None, self._person.id) or strange & set(shown_in(entry, row))
            ],
        )

    def _summary(self, mine: Callable[[Row], bool]) -> None:
        """Entries of the report that are about this user."""
        file = self._run.folder / "summary.json"
        try:
            held = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
        except FileNotFoundError:
            return
        except (msgspec.DecodeError, OSError, RecursionError) as error:
            raise PalateError(f"{file} cannot be read: {error}") from error
        for name, entries in held.items():
            if isinstance(entries, list):
                kept = [row for row in entries if isinstance(row, dict) and mine(row)]
                if kept:
                    self._put("summary.json", kept, name)

    def _note(self, text: str, count: int, path: Path | None = None) -> None:
        if count:
            self._notes.append(text.format(path=path or self._run.folder, count=count))

    def _done(self) -> RunExport:
        self._note(WITHHELD, self._withheld)
        self._note(QUOTING, self._quoting)
        for file, count in dropped_lines(self._run.folder).items():
            self._note(TORN, count, file)
        run = self._run
        return RunExport(run=str(run.folder), kind=run.experiment.kind, files=self._files, lines=self._lines)


def _with_parts(run: Run[Any], notes: list[str]) -> list[Run[Any]]:
    """The runs of a table, or the run itself."""
    parts = run.experiment.parts(run)
    if not parts:
        return [run]
    notes.append(TABLE.format(path=run.folder, parts=", ".join(part.name for part in parts)))
    return [open_run(part) for part in parts]


def _each_once(runs: Iterable[Run[Any]]) -> list[Run[Any]]:
    """By where they lie; of several names the first stays."""
    found: dict[Path, Run[Any]] = {}
    for run in runs:
        found.setdefault(run.folder.resolve(), run)
    return list(found.values())


def _item(row: Row) -> str:
    return str(row.get("item"))


def _shown_anywhere(row: Row) -> set[ViewKey]:
    """The views that were shown when a line or any of its entries was made."""
    return {*shown_in(row), *(view for entry in entries_of(row) for view in shown_in(entry, row))}
