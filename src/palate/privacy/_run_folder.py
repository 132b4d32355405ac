"""Erasing a user from a run of any kind, by what its ledgers say of whose their lines are."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from palate.privacy._person import Person, quotation_search
from palate.privacy._places import Kind, Place, Renaming, Tally, erase_dropped_lines
from palate.privacy._rewrite_lines import FileChange, Row, each_row, mentions, remove_drafts, rewrite, sha256
from palate.runs import (
    BAD,
    COMMAND,
    FINISHED,
    About,
    Keys,
    Ledger,
    Run,
    locked,
    open_run,
    report_files,
    write_report_files,
)
from palate.runs import REPORTS as WRITTEN_REPORTS

REPORTS = (*WRITTEN_REPORTS, FINISHED)
"""Files that tell what a run came to. The last is not rebuilt: the same command makes it."""
NAMES = frozenset(
    {"id", "user_id", "item", "rm", "view", "policy_view", "key", "twin", "group", "stranger", "neighbours", "parts"}
)
"""Fields that hold names, and no text of anybody."""
NOT_REMADE = (
    "{folder}: its reports were removed and cannot be made again ({why}); what palate report {folder} says of it may "
    "quote others, and is not repeated here"
)
ViewKey = tuple[str, str, int]


def owners(run: Run[Any]) -> Iterator[tuple[str, str]]:
    """The items of a run and whose they are."""
    for ledger in run.ledgers:
        if ledger.about == "items":
            for row in each_row(run.folder / ledger.name):
                yield str(row.get("id")), str(row.get("user_id"))


def shown_in_run(run: Run[Any], users: Collection[str]) -> set[object]:
    """Which of the users anything of this run shows, be it with somebody else's item."""
    found: set[object] = set()
    may_name = mentions(users)
    for file in (run.folder / ledger.name for ledger in run.ledgers):
        if file.is_file():
            with file.open("rb") as stream:
                for line in filter(may_name, stream):
                    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a torn last line
                        found.update(named_in(msgspec.json.decode(line)).intersection(users))
    return found


def shared_samples(run: Path) -> list[Path]:
    """Folders of samples in the same folder of runs."""
    return sorted(file.parent.resolve() for file in run.parent.glob("samples/*/samples.jsonl"))


def erase_from_run(
    run: Run[Any], person: Person, *, write: bool, reports: Mapping[Path, str | None] | None = None
) -> tuple[Place, list[str]]:
    """What was erased, and the texts that are gone.

    Erased are the user's items, whatever is about them, and lines of others that were made while this user's profile
    was shown as a stranger's or a neighbour's, that quote the user, or that were made from such lines. The same
    command would make those of others again. Reports are rebuilt, or removed with the last item: those that hold
    lines which go, or `reports`, where an earlier call has told which they were.
    """
    if not write:
        return _Erasure(run, person).carry_out(None)
    with locked(run.folder / ledger.name for ledger in run.ledgers):  # nobody else may write meanwhile
        return _Erasure(run, person).carry_out(reports or {})


class _Erasure:
    """What every ledger of a run shall hold, worked out before anything is written. Lines are read again rather than
    kept: a run may have millions, and few of them change."""

    def __init__(self, run: Run[Any], person: Person) -> None:
        self._run, self._person = run, person
        self._counts: Counter[str] = Counter()
        self._texts: list[str] = []
        self._holds_quotation = quotation_search(person.wrote)
        elsewhere, own = set(person.items), set()
        for row in self._about("items"):
            id = str(row.get("id"))
            elsewhere.discard(id)
            if row.get("user_id") in person.ids or person.is_in(texts_of(row)):
                own.add(id)
        self._items = own | elsewhere  # samples do not say whose they are
        self._rename = Renaming(self._items, (row for row in self._about("items") if str(row.get("id")) not in own))
        quoting = {str(row.get("key")) for row in self._about("parts") if self._quotes(row)}
        self._views = {
            shown_by(row)
            for row in self._about("views")
            if row.get("user_id") in person.ids
            or not person.ids.isdisjoint(neighbours_of(row))
            or quoting & set(_parts(row))
        }
        self._anybodys = {ledger.name for ledger in run.experiment.may_tell_of_anybody(run)}
        self._lost: dict[str, set[Hashable]] = {}
        self._shown = Keys()
        """Parts of profiles that a view still shows."""
        self._after: dict[str, dict[int, Row | None]] = {}
        """By ledger and number of the line, those that change or go."""
        for ledger in sorted(run.ledgers, key=lambda ledger: ledger.about == "parts"):  # after the views
            changes = self._after[ledger.name] = {}
            for number, row in enumerate(each_row(run.folder / ledger.name)):
                after = self._changed(ledger, row)
                if after is not row and after != row:
                    changes[number] = after
                if ledger.about == "views" and after is not None:
                    self._shown.update(_parts(after))

    def carry_out(self, reports: Mapping[Path, str | None] | None) -> tuple[Place, list[str]]:
        """Write it down, with these reports made again, or say what would be written where there are none.

        Old reports go first. What was made goes before what it was made from, and items last: they tell whose
        everything is.
        """
        run, tally, write = self._run, Tally(), reports is not None
        tally.counts = self._counts
        if any(self._after.values()):  # a run that went on since the plan may have reports that the plan did not find
            reports = {**reports_of(run), **(reports or {})}
        reports = reports or {}
        if write:
            names = [ledger.name for ledger in run.ledgers]
            remove_drafts(run.folder, [*REPORTS, COMMAND, *names, *(name + BAD for name in names)])
            for report in reports:
                report.unlink(missing_ok=True)
        made_last_first = run.ledgers[::-1]
        for ledger in sorted(made_last_first, key=lambda ledger: ledger.about == "items"):
            tally.changed(_rewrite_as(run.folder / ledger.name, self._after[ledger.name], write=write))
        files, left = remake_reports(run, reports, write=write)
        tally.files += files
        tally.changed(self._forget_command(write=write))
        erase_dropped_lines(run.folder, tally, write=write)
        kind: Kind = "samples" if run.experiment.kind == "samples" else "run"
        left += run.experiment.left_after_forgetting(run)
        return tally.place(kind, run.folder, left), self._texts

    def _forget_command(self, *, write: bool) -> FileChange | None:
        """The command line goes where it names the person; the settings say the rest."""
        file = self._run.folder / COMMAND
        if not file.is_file():
            return None
        line = file.read_text("utf-8", "replace")
        with suppress(ValueError):  # a quote inside a name is written as several characters
            line += "\n".join(shlex.split(line))
        if not any(name in line for name in self._person.ids):
            return None
        self._counts["command lines"] += 1
        before = sha256(file)
        if write:
            file.unlink()
        return FileChange(path=str(file), before=before, after=None)

    def _about(self, about: About) -> Iterator[Row]:
        for ledger in self._run.ledgers:
            if ledger.about == about:
                yield from each_row(self._run.folder / ledger.name)

    def _changed(self, ledger: Ledger[Any], row: Row) -> Row | None:
        """The line as it shall stand."""
        if ledger.about == "nobody" and ledger.name not in self._anybodys:
            return row
        kept = self._without_entries(ledger, self._rename(row))
        if not self._goes(ledger, kept):
            return kept
        self._counts[ledger.label] += 1
        self._texts += texts_of(kept)
        if ledger.key is not None:
            self._lost.setdefault(ledger.name, set()).add(ledger.key(_line(ledger, row)))
        return None

    def _goes(self, ledger: Ledger[Any], row: Row) -> bool:
        if ledger.about == "items":
            return str(row.get("id")) in self._items
        if ledger.about == "parts":
            return str(row.get("key")) not in self._shown
        return (
            str(row.get("item")) in self._items
            or not self._person.ids.isdisjoint((row.get("user_id"), row.get("stranger"), *neighbours_of(row)))
            or bool(self._views & set(shown_in(row)))
            or self._quotes(row)
            or ledger.name in self._anybodys
            or self._made_from_lost(ledger, row)
        )

    def _made_from_lost(self, ledger: Ledger[Any], row: Row) -> bool:
        lost = self._lost.get(ledger.needs.ledger.name) if ledger.needs else None
        return bool(lost and ledger.needs and lost & set(ledger.needs.keys(_line(ledger, row))))

    def _without_entries(self, ledger: Ledger[Any], row: Row) -> Row:
        """The line without entries of its lists that were made while this user was shown."""
        shown = [
            entry
            for entry in entries_of(row)
            if entry.get("user_id") in self._person.ids or self._views & set(shown_in(entry, row))
        ]
        if not shown:
            return row
        self._counts[f"entries of {ledger.label}"] += len(shown)
        self._texts += texts_of(shown)
        return without(row, shown)

    def _quotes(self, row: Row) -> bool:
        return any(map(self._holds_quotation, texts_of(row)))


def _line(ledger: Ledger[Any], row: Row) -> Any:
    return msgspec.json.decode(msgspec.json.encode(row), type=ledger.line)


def _rewrite_as(file: Path, after: Mapping[int, Row | None], *, write: bool) -> FileChange | None:
    """Rewrite a file of lines, those with these numbers; all others stay byte for byte."""
    numbers = count()
    return rewrite(file, lambda row: after.get(next(numbers), row), write=write, keep_empty=True)


def reports_of(run: Run[Any]) -> dict[Path, str | None]:
    """The reports that are there, with their hashes."""
    return {run.folder / name: sha256(run.folder / name) for name in REPORTS if (run.folder / name).is_file()}


def remake_reports(
    run: Run[Any], before: Mapping[Path, str | None], *, write: bool
) -> tuple[list[FileChange], list[str]]:
    """Rebuild removed reports from what is left, where any item is; in words, why they cannot be."""
    left = []
    if write and before:
        try:
            parts = (run, *map(open_run, run.experiment.parts(run)))
            has_items = any(True for part in parts for _ in owners(part))
            files = report_files(run, run.experiment.summarise(run))[1] if has_items else {}
        except Exception as error:  # a run that nobody can sum up must not keep the person for ever
            left.append(NOT_REMADE.format(folder=run.folder, why=type(error).__name__))
        else:
            write_report_files(run, files)
    return [FileChange(path=str(file), before=content, after=sha256(file)) for file, content in before.items()], left


def shown_by(row: Row) -> ViewKey:
    """What a line of `views.jsonl` is about."""
    return str(row.get("view")), str(row.get("item")), _draw(row)


def shown_in(row: Row, line: Row | None = None) -> list[ViewKey]:
    """The views that were shown when a line, or an entry of a line, was made.

    They are a reward model's of one draw, and the policy's, which has one.
    """
    item = str((line or row).get("item"))
    return [(str(row.get("view")), item, _draw(row)), (str(row.get("policy_view")), item, 0)]


def entries_of(row: Row) -> list[Row]:
    """What the lists of a line hold, where they say what was shown with each entry."""
    lists = (value for value in row.values() if isinstance(value, list))
    return [one for entries in lists for one in entries if isinstance(one, dict) and {"view", "user_id"} & one.keys()]


def without(row: Row, entries: Sequence[Row]) -> Row:
    """A line without some entries of its lists, and without the lists that are empty then."""
    if not entries:
        return row
    kept: Row = {
        name: [one for one in value if one not in entries] if isinstance(value, list) else value
        for name, value in row.items()
    }
    return {name: value for name, value in kept.items() if value or value == row[name]}


def _draw(row: Row) -> int:
    draw = row.get("draw", 0)
    return draw if isinstance(draw, int) else 0


def _parts(row: Row) -> list[str]:
    keys = row.get("parts")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def neighbours_of(row: Row) -> list[str]:
    """Similar users whose history was shown beside the user's own."""
    users = row.get("neighbours")
    return [str(user) for user in users] if isinstance(users, list) else []


def texts_of(value: object) -> list[str]:
    """Every text of a line, but for names."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() if key not in NAMES for text in texts_of(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts_of(inner)]
    return [value] if isinstance(value, str) else []


def named_in(value: object) -> set[object]:
    """Everybody whom a line names."""
    if isinstance(value, dict):
        own = {value.get("user_id"), value.get("stranger"), *neighbours_of(value)}
        return own.union(*(named_in(inner) for inner in value.values()))
    return set().union(*(named_in(inner) for inner in value)) if isinstance(value, list) else set()
