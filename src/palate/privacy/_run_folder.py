"""Erasing a user from a run: their items, every view that shows them, and what models said of either."""

from __future__ import annotations

from pathlib import Path

from palate.evaluation import Run, RunWriter, summarise, write_reports
from palate.privacy._person import Person
from palate.privacy._places import Place, Renaming, Tally, erase_dropped_lines
from palate.privacy._rewrite_lines import FileChange, Row, read_rows, rewrite, sha256

REPORTS = ("report.html", "report.md", "results.csv", "summary.json")


def erase_from_run(folder: Path, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    """What was erased, and the texts of profiles that no view shows any more.

    Ratings of others' items under this user's profile go too; the same command would make them anew with
    another stranger. Reports are made anew, or removed where no item is left.
    """
    run = Run.open(folder)
    if not write:
        return _erase(run, person, write=False)
    with RunWriter(run):  # nobody else may write meanwhile
        return _erase(run, person, write=True)


def _erase(run: Run, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    tally = Tally()
    folder = run.folder
    items = read_rows(folder / "items.jsonl")
    gone = {str(row.get("id")) for row in items if _goes(row, person)}
    parts = {str(row.get("key")): str(row.get("text")) for row in read_rows(folder / "parts.jsonl")}
    quoting = {key for key, text in parts.items() if any(own in text for own in person.wrote)}
    views = read_rows(folder / "views.jsonl")
    hidden = {_key(row) for row in views if row.get("user_id") == person.id or quoting & set(_parts(row))}
    shown = {key for row in views if _stays(row, gone, hidden) for key in _parts(row)}
    rename = Renaming(gone, (row for row in items if str(row.get("id")) not in gone))

    def counted(what: str, stays: bool, row: Row) -> Row | None:
        tally.counts[what] += not stays
        return row if stays else None

    def item(row: Row) -> Row | None:
        return counted("items", str(row.get("id")) not in gone, row) and rename(row)

    def view(row: Row) -> Row | None:
        return counted("views", _stays(row, gone, hidden), row)

    def part(row: Row) -> Row | None:
        return counted("parts of profiles", str(row.get("key")) in shown, row)

    def rating(row: Row) -> Row | None:
        return counted("ratings", _stays(row, gone, hidden), row)

    for name, change in {"ratings": rating, "views": view, "parts": part, "items": item}.items():
        tally.changed(rewrite(folder / f"{name}.jsonl", change, write=write, keep_empty=True))
    if tally.files:
        tally.files += _reports(run, write=write)
    erase_dropped_lines(folder, tally, write=write)
    return tally.place("run", folder), [text for key, text in parts.items() if key not in shown]


def _reports(run: Run, *, write: bool) -> list[FileChange]:
    there = [run.folder / name for name in REPORTS if (run.folder / name).is_file()]
    before = {file: sha256(file) for file in there}
    if write and there:
        for file in there:
            file.unlink()
        if run.items():
            write_reports(run, summarise(run))
    return [FileChange(path=str(file), before=before[file], after=sha256(file)) for file in there]


def _goes(row: Row, person: Person) -> bool:
    responses = row.get("responses")
    texts = [row.get("prompt"), *(responses if isinstance(responses, list) else [])]
    return row.get("user_id") == person.id or person.is_in(text for text in texts if isinstance(text, str))


def _key(row: Row) -> tuple[str, str, object]:
    """A view, an item, and which of the view's strangers."""
    return str(row.get("view")), str(row.get("item")), row.get("draw", 0)


def _parts(row: Row) -> list[str]:
    keys = row.get("parts")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _stays(row: Row, gone: set[str], hidden: set[tuple[str, str, object]]) -> bool:
    return str(row.get("item")) not in gone and _key(row) not in hidden
