"""Erasing a user from what policies wrote for them: best-of-N and guided runs, and the samples that runs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from palate.downstream import (
    BonRun,
    GuideRun,
    SteerRun,
    summarise_best_of_n,
    summarise_guide,
    summarise_steer,
    write_best_of_n,
    write_guide,
    write_steer,
)
from palate.privacy._person import Person
from palate.privacy._places import Place, Renaming, Tally, erase_dropped_lines
from palate.privacy._rewrite_lines import FileChange, Row, read_rows, rewrite, sha256
from palate.runs import Appender

REPORTS = ("report.html", "report.md", "summary.json")
LINES = {
    "samples.jsonl": "samples",
    "generations.jsonl": "texts",
    "likelihoods.jsonl": "likelihoods",
    "rewards.jsonl": "rewards",
    "outcomes.jsonl": "rewards",
    "ratings.jsonl": "ratings",
    "marks.jsonl": "marks",
    "views.jsonl": "views",
}
"""Files whose lines belong to an item, and what a receipt calls them."""


Shown = tuple[str, str, int]
"""A view, an item and a draw."""


def is_run_of_texts(folder: Path) -> bool:
    """Whether a folder holds a best-of-N or a guided run."""
    return BonRun.is_one(folder) or GuideRun.is_one(folder)


def is_shown(folder: Path, user: str) -> bool:
    """Whether a view of this folder shows the user, be it with somebody else's item."""
    return any(row.get("user_id") == user for row in read_rows(folder / "views.jsonl"))


def owners(folder: Path) -> Iterator[tuple[str, str]]:
    """The items of a run and whose they are; of a training run those that were held out."""
    for row in read_rows(folder / "items.jsonl"):
        yield str(row.get("id")), str(row.get("user_id"))
    for row in read_rows(folder / "held_out.jsonl"):
        yield str(row.get("item")), str(row.get("user_id"))


def shared_samples(run: Path) -> list[Path]:
    """Folders of samples in the same folder of runs."""
    return sorted(file.parent.resolve() for file in run.parent.glob("samples/*/samples.jsonl"))


def erase_from_texts(folder: Path, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    """What was erased from a run or a folder of samples, and the texts that are gone.

    Lines of others go where they were made while this user's profile was shown as a stranger's, and where a text quotes
    the user, with what was said of that text. The same command would make them anew. Reports are made anew, or removed
    with the last item.
    """
    with ExitStack() as stack:
        if write:  # nobody else may write meanwhile
            for file in (folder / name for name in LINES if (folder / name).is_file()):
                stack.enter_context(closing(Appender(file)))
        return _erase(folder, person, write=write)


def _erase(folder: Path, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    tally = Tally()
    items = read_rows(folder / "items.jsonl")
    shared = not (folder / "items.jsonl").is_file()  # samples do not say whose they are
    gone = person.items if shared else {str(row.get("id")) for row in items if goes(row, person)}
    borrowed = {shown_by(row) for row in read_rows(folder / "views.jsonl") if row.get("user_id") == person.id}
    rename = Renaming(gone, (row for row in items if str(row.get("id")) not in gone))
    erased: list[str] = []
    quoted: set[tuple[str, str]] = set()

    def item(row: Row) -> Row | None:
        stays = str(row.get("id")) not in gone
        tally.counts["items"] += not stays
        return rename(row) if stays else None

    for name, what in LINES.items():

        def line(row: Row, what: str = what) -> Row | None:
            texts = texts_of(row)
            own = str(row.get("item")) in gone
            stranger = row.get("stranger") == person.id or bool(borrowed & set(shown_in(row)))
            quotes = any(mine in text for text in texts for mine in person.wrote)
            key = (str(row.get("policy_view")), str(row.get("item")))
            if quotes:
                quoted.add(key)
            if not (own or stranger or quotes or (key in quoted and not texts)):
                return row
            tally.counts[what] += 1
            erased.extend(texts)
            return None

        tally.changed(rewrite(folder / name, line, write=write, keep_empty=True))
    tally.changed(rewrite(folder / "items.jsonl", item, write=write, keep_empty=True))
    if tally.files:
        tally.files += _reports(folder, write=write)
    erase_dropped_lines(folder, tally, write=write)
    return tally.place("samples" if shared else "run", folder), erased


def made_anew(folder: Path, *, write: bool) -> Place:
    """A table of other runs holds no user; its numbers are made anew from what is left of them."""
    tally = Tally()
    tally.files = _reports(folder, write=write)
    return tally.place("run", folder)


def goes(row: Row, person: Person) -> bool:
    responses = row.get("responses")
    texts = [row.get("prompt"), *(responses if isinstance(responses, list) else [])]
    return row.get("user_id") == person.id or person.is_in(text for text in texts if isinstance(text, str))


def texts_of(row: Row) -> list[str]:
    """What was written: several samples, or one text."""
    several = row.get("texts")
    found = [*several] if isinstance(several, list) else [row.get("text")]
    return [text for text in found if isinstance(text, str)]


def shown_by(row: Row) -> Shown:
    """What a line of `views.jsonl` is about."""
    return str(row.get("view")), str(row.get("item")), _draw(row)


def shown_in(row: Row) -> list[Shown]:
    """The views that were shown when a line was made: a reward model's of one draw, and the policy's, which has one."""
    item = str(row.get("item"))
    return [(str(row.get("view")), item, _draw(row)), (str(row.get("policy_view")), item, 0)]


def _draw(row: Row) -> int:
    draw = row.get("draw", 0)
    return draw if isinstance(draw, int) else 0


def _reports(folder: Path, *, write: bool) -> list[FileChange]:
    there = [folder / name for name in REPORTS if (folder / name).is_file()]
    before = {file: sha256(file) for file in there}
    if write and there:
        for file in there:
            file.unlink()
        _report(folder)
    return [FileChange(path=str(file), before=before[file], after=sha256(file)) for file in there]


def _report(folder: Path) -> None:
    """What `palate report` writes; nothing where no item is left."""
    if SteerRun.is_one(folder):
        table = SteerRun.open(folder)
        if any(owners(table.part(table.settings.best_of_n))):
            write_steer(summarise_steer(table))
    elif any(owners(folder)):
        if BonRun.is_one(folder):
            write_best_of_n(summarise_best_of_n(BonRun.open(folder)))
        else:
            write_guide(summarise_guide(GuideRun.open(folder)))
