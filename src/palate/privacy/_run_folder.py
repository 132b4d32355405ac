"""Erasing a user from a run of any kind, by what its ledgers say of whose their lines are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.privacy._person import Person
from palate.privacy._places import Kind, Place, Renaming, Tally, erase_dropped_lines
from palate.privacy._rewrite_lines import FileChange, Row, read_rows, rewrite, sha256
from palate.runs import Ledger, Run, locked, open_run, write_report

REPORTS = ("report.html", "report.md", "results.csv", "summary.json")
NAMES = frozenset({"id", "user_id", "item", "rm", "view", "policy_view", "key", "twin", "group", "stranger", "parts"})
"""Fields that hold names, and no text of anybody."""
ViewKey = tuple[str, str, int]


def owners(run: Run[Any]) -> Iterator[tuple[str, str]]:
    """The items of a run and whose they are."""
    for ledger in run.ledgers:
        if ledger.about == "items":
            for row in read_rows(run.folder / ledger.name):
                yield str(row.get("id")), str(row.get("user_id"))


def is_shown(run: Run[Any], user: str) -> bool:
    """Whether anything of this run shows the user, be it with somebody else's item."""
    return any(user in _named(row) for ledger in run.ledgers for row in read_rows(run.folder / ledger.name))


def shared_samples(run: Path) -> list[Path]:
    """Folders of samples in the same folder of runs."""
    return sorted(file.parent.resolve() for file in run.parent.glob("samples/*/samples.jsonl"))


def erase_from_run(run: Run[Any], person: Person, *, write: bool) -> tuple[Place, list[str]]:
    """What was erased, and the texts that are gone.

    Erased are the user's items, whatever is about them, and lines of others that were made while this user's profile
    was shown as a stranger's, that quote the user, or that were made from such lines. The same command would make
    those of others anew. Reports are made anew, or removed with the last item.
    """
    if not write:
        return _erase(run, person, write=False)
    with locked(run.folder / ledger.name for ledger in run.ledgers):  # nobody else may write meanwhile
        return _erase(run, person, write=True)


def _erase(run: Run[Any], person: Person, *, write: bool) -> tuple[Place, list[str]]:
    tally, ledgers = Tally(), run.ledgers
    rows = {ledger.name: read_rows(run.folder / ledger.name) for ledger in ledgers}
    items = [row for ledger in ledgers if ledger.about == "items" for row in rows[ledger.name]]
    gone = {str(row.get("id")) for row in items if row.get("user_id") == person.id or person.is_in(texts_of(row))}
    if not any(ledger.about == "items" for ledger in ledgers):  # samples do not say whose they are
        gone = set(person.items)
    quoting = _keys(rows, ledgers, "parts", lambda row: _quotes(row, person))
    hidden = {
        shown_by(row)
        for ledger in ledgers
        if ledger.about == "views"
        for row in rows[ledger.name]
        if row.get("user_id") == person.id or quoting & set(_parts(row))
    }
    lost: dict[str, set[Hashable]] = {}
    changes: dict[str, dict[int, Row | None]] = {}
    erased: list[str] = []
    for ledger in ledgers:
        if ledger.about in ("items", "parts", "nobody"):
            continue
        lost[ledger.name], changes[ledger.name] = set(), {}
        needed = lost.get(ledger.needs.ledger.name, set()) if ledger.needs else set()
        for place, row in enumerate(rows[ledger.name]):
            line = msgspec.convert(row, ledger.line, strict=False)
            goes = (
                str(row.get("item")) in gone
                or person.id in (row.get("stranger"), row.get("user_id"))
                or bool(hidden & set(shown_in(row)))
                or (ledger.needs is not None and any(key in needed for key in ledger.needs.keys(line)))
            )
            kept = _without(row, person.id)
            if not goes and not _quotes(kept, person):
                if kept != row:
                    changes[ledger.name][place] = kept
                    erased += [text for text in texts_of(row) if text not in set(texts_of(kept))]
                continue
            changes[ledger.name][place] = None
            erased += texts_of(row)
            if ledger.key is not None:
                lost[ledger.name].add(ledger.key(line))
    left = {
        key
        for ledger in ledgers
        if ledger.about == "views"
        for place, row in enumerate(rows[ledger.name])
        if changes[ledger.name].get(place, row) is not None
        for key in _parts(row)
    }
    rename = Renaming(gone, (row for row in items if str(row.get("id")) not in gone))
    for ledger in reversed(ledgers):  # items last: they tell whose everything is
        place = -1

        def change(row: Row, ledger: Ledger[Any] = ledger) -> Row | None:
            nonlocal place
            place += 1
            if ledger.about == "items":
                new = None if str(row.get("id")) in gone else rename(row)
            elif ledger.about == "parts":
                new = row if str(row.get("key")) in left else None
                erased.extend(texts_of(row) if new is None else [])
            elif ledger.about == "nobody":
                new = row
            else:
                new = changes[ledger.name].get(place, row)
                new = _without_twin(new, gone) if new is not None else None
            tally.counts[ledger.label] += new is None or (new is not row and new != row and ledger.about == "item")
            return new

        tally.changed(rewrite(run.folder / ledger.name, change, write=write, keep_empty=True))
    if tally.files:
        tally.files += remade_reports(run, write=write)
    erase_dropped_lines(run.folder, tally, write=write)
    kind: Kind = "samples" if run.experiment.kind == "samples" else "run"
    return tally.place(kind, run.folder, run.experiment.left_after_forgetting(run)), erased


def remade_reports(run: Run[Any], *, write: bool) -> list[FileChange]:
    """The reports, made anew from what is left; removed where no item is."""
    there = [run.folder / name for name in REPORTS if (run.folder / name).is_file()]
    before = {file: sha256(file) for file in there}
    if write and there:
        for file in there:
            file.unlink()
        if any(True for part in (run, *map(open_run, run.experiment.parts(run))) for _ in owners(part)):
            write_report(run, run.experiment.summarise(run))
    return [FileChange(path=str(file), before=before[file], after=sha256(file)) for file in there]


def shown_by(row: Row) -> ViewKey:
    """What a line of `views.jsonl` is about."""
    return str(row.get("view")), str(row.get("item")), _draw(row)


def shown_in(row: Row) -> list[ViewKey]:
    """The views that were shown when a line was made: a reward model's of one draw, and the policy's, which has one."""
    item = str(row.get("item"))
    return [(str(row.get("view")), item, _draw(row)), (str(row.get("policy_view")), item, 0)]


def _draw(row: Row) -> int:
    draw = row.get("draw", 0)
    return draw if isinstance(draw, int) else 0


def _parts(row: Row) -> list[str]:
    keys = row.get("parts")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _keys(rows: dict[str, list[Row]], ledgers: Sequence[Ledger[Any]], about: str, holds: Any) -> set[str]:
    return {
        str(row.get("key")) for ledger in ledgers if ledger.about == about for row in rows[ledger.name] if holds(row)
    }


def texts_of(value: object) -> list[str]:
    """Every text of a line, but for names."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() if key not in NAMES for text in texts_of(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts_of(inner)]
    return [value] if isinstance(value, str) else []


def _named(value: object) -> set[object]:
    """Everybody whom a line names."""
    if isinstance(value, dict):
        own = {value.get("user_id"), value.get("stranger")}
        return own.union(*(_named(inner) for inner in value.values()))
    return set().union(*(_named(inner) for inner in value)) if isinstance(value, list) else set()


def _quotes(row: Row, person: Person) -> bool:
    return any(mine in text for text in texts_of(row) for mine in person.wrote)


def _without(row: Row, user: str) -> Row:
    """The same line without entries of its lists that were made while this user was shown."""
    kept = {
        name: [entry for entry in value if not (isinstance(entry, dict) and entry.get("user_id") == user)]
        if isinstance(value, list)
        else value
        for name, value in row.items()
    }
    return {name: value for name, value in kept.items() if value or value == row[name]}


def _without_twin(row: Row, gone: set[str]) -> Row:
    return {name: row[name] for name in row if name != "twin"} if str(row.get("twin")) in gone else row
