"""Erasing a user from a benchmark folder: their records, and their texts where others were offered them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from palate.data import is_folder_format
from palate.privacy._person import Person
from palate.privacy._places import Place, Renaming, Tally
from palate.privacy._rewrite_lines import Row, read_rows, remove_drafts, rewrite
from palate.records import PalateError

FILES = ("users.jsonl", "comparisons.jsonl", "completions.jsonl")


def check_folder(folder: Path) -> None:
    """Refuse what is not palate's own format: other people's formats are not ours to rewrite."""
    if not folder.is_dir() or not is_folder_format(folder):
        raise PalateError(
            f"{folder} is not a folder in palate's own format. palate data convert makes one; erase the user from "
            "the source by hand."
        )


def erase_from_folder(folder: Path, person: Person, *, write: bool) -> Place:
    """Take out the user's lines; lines of others change only where they name or quote what is gone."""
    tally = Tally()
    found = {name: _file(folder, name) for name in FILES}
    comparisons = read_rows(found["comparisons.jsonl"])
    gone = {str(row.get("id")) for row in comparisons if _goes(row, person)}
    rename = Renaming(gone, (row for row in comparisons if str(row.get("id")) not in gone))

    def user(row: Row) -> Row | None:
        if str(row.get("user_id")) in person.ids:
            tally.counts["user records"] += 1
            return None
        return _filtered(row, "preferences", lambda one: not _quotes(one, person), tally, "judgements by others")

    def comparison(row: Row) -> Row | None:
        if str(row.get("id")) in gone:
            theirs = str(row.get("user_id")) in person.ids
            tally.counts["comparisons" if theirs else "comparisons of others that offer their text"] += 1
            return None
        new = rename(row)
        tally.counts["links to their items"] += new is not row
        return new

    def completion(row: Row) -> Row | None:
        if str(row.get("user_id")) in person.ids:
            tally.counts["completions"] += 1
            return None
        return _filtered(row, "alternatives", lambda one: one not in person.wrote, tally, "alternatives of others")

    if write:
        remove_drafts(folder, [name + packed for name in FILES for packed in ("", ".gz")])
    for name, change in zip(FILES, (user, comparison, completion), strict=True):
        tally.changed(rewrite(found[name], change, write=write))
    return tally.place("benchmark", folder)


def _file(folder: Path, name: str) -> Path:
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def _goes(row: Row, person: Person) -> bool:
    return str(row.get("user_id")) in person.ids or _quotes(row, person)


def _quotes(row: object, person: Person) -> bool:
    """Whether a choice offers, or asks about, a text that the person wrote."""
    assert isinstance(row, dict)
    texts: list[object] = [row.get(name) for name in ("chosen", "response_A", "response_B", "prompt", "question")]
    for name in ("rejected", "responses"):
        value = row.get(name)
        texts += value if isinstance(value, list) else [value]
    return person.is_in(text for text in texts if isinstance(text, str))


def _filtered(row: Row, name: str, keep: Callable[[object], bool], tally: Tally, what: str) -> Row:
    """The row without some entries of one list; itself where all stay."""
    entries = row.get(name)
    if not isinstance(entries, list):
        return row
    kept = [one for one in entries if keep(one)]
    if len(kept) == len(entries):
        return row
    tally.counts[what] += len(entries) - len(kept)
    return {**row, name: kept}
