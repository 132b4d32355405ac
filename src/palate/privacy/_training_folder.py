"""Erasing a held-out user from a training run. Whoever was trained on is in the weights, and cannot be taken out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from palate.downstream import PpoRun, summarise_ppo, write_ppo
from palate.privacy._person import Person
from palate.privacy._places import Place, Tally, erase_dropped_lines
from palate.privacy._rewrite_lines import FileChange, Row, read_rows, replace, rewrite, sha256
from palate.privacy._text_folders import REPORTS, goes, is_shown, texts_of
from palate.records import PalateError
from palate.runs import Appender

TRAINED = (
    "{path} was trained on this user, and a policy cannot unlearn one user: delete that folder, and copies of its "
    "policy, and name it no more with --run. Nothing was erased anywhere."
)
UNFINISHED = (
    "{path} holds this user out and is not finished, so its files do not tell which items are theirs: delete that "
    "folder, or finish it first with the command that began it. Nothing was erased anywhere."
)
WEIGHTS = (
    "the weights in {path} are as they were: they were not trained on this user, but if the reward model was, or if "
    "texts of theirs were shown with others' items, a trace of that may be in them"
)
CONTROLS = ("ratings", "written")
"""In a line of a held-out prompt: what was rated and written while nothing, or a stranger, was shown."""
STRANGERS = (
    "{path} showed somebody else's profile in training and does not keep whose: if it was this user's, a trace of it "
    "is in the weights; delete the folder to be sure"
)


def knows_held_out(folder: Path, user: str) -> bool:
    """Whether a training run holds this user out; refused where they cannot be taken out of it."""
    run = PpoRun.open(folder)
    split = run.split()
    if user in split.train_users:
        raise PalateError(TRAINED.format(path=folder))
    if user not in split.test_users:
        controls = [one for row in read_rows(folder / "held_out.jsonl") for one in _controls(row)]
        return is_shown(folder, user) or any(one.get("user_id") == user for one in controls)
    if not run.policy.exists() or set(split.test_items) - run.held_out().keys():
        raise PalateError(UNFINISHED.format(path=folder))
    return True


def erase_from_training(folder: Path, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    """What was erased, and the texts that are gone: lines of the user or that quote them, and of others' lines what was
    made while the user's profile was shown as a stranger's.

    The old reports go first and the lines last, since they tell which items are the user's, so that a call that was
    broken off can be made again.
    """
    file = folder / "held_out.jsonl"
    if not write or not file.is_file():
        return _erase(folder, person, write=write)
    with closing(Appender(file)):  # nobody else may write meanwhile
        return _erase(folder, person, write=True)


def _erase(folder: Path, person: Person, *, write: bool) -> tuple[Place, list[str]]:
    run, tally = PpoRun.open(folder), Tally()
    split = run.split()
    strangers = any(view.whose != "own" for view in (run.settings.view, run.settings.policy_view))
    rows = read_rows(folder / "held_out.jsonl")
    lost = [row for row in rows if strangers or goes(row, person) or _quotes(_without(row, person), person)]
    gone = {str(row.get("item")) for row in lost}
    borrowed = [one for row in rows for one in _controls(row) if one.get("user_id") == person.id]

    def line(row: Row) -> Row | None:
        if str(row.get("item")) in gone:
            tally.counts["held-out lines"] += 1
            return None
        kept = _without(row, person)
        tally.counts["controls"] += len(_controls(row)) - len(_controls(kept))
        return {name: kept[name] for name in kept if name != "twin"} if str(row.get("twin")) in gone else kept

    def view(row: Row) -> Row | None:
        stays = str(row.get("item")) not in gone and row.get("user_id") != person.id
        tally.counts["views"] += not stays
        return row if stays else None

    changes = bool(gone or borrowed)
    reports = [folder / name for name in REPORTS if (folder / name).is_file()] if changes else []
    before = {file: sha256(file) for file in ([folder / "split.json"] if gone else []) + reports}
    staying = {row.get("user_id") for row in rows if str(row.get("item")) not in gone}
    kept = msgspec.structs.replace(
        split,
        test_users=[user for user in split.test_users if user in staying],
        test_items=[item for item in split.test_items if item not in gone],
    )
    if write:
        for file in reports:
            file.unlink()
    if gone and write:
        replace(folder / "split.json", msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    tally.changed(rewrite(folder / "views.jsonl", view, write=write, keep_empty=True))
    tally.changed(rewrite(folder / "held_out.jsonl", line, write=write, keep_empty=True))
    if reports and write:
        write_ppo(summarise_ppo(PpoRun.open(folder)))
    tally.files += [FileChange(path=str(file), before=content, after=sha256(file)) for file, content in before.items()]
    erase_dropped_lines(folder, tally, write=write)
    left = [WEIGHTS.format(path=run.policy), *([STRANGERS.format(path=folder)] if strangers else [])]
    texts = [text for row in lost for text in _texts(row)]
    return tally.place("run", folder, left), [*texts, *(text for one in borrowed for text in texts_of(one))]


def _controls(row: Row) -> list[Row]:
    """What was rated and written while nothing, or a stranger, was shown."""
    found = [row.get(name) for name in CONTROLS]
    return [one for some in found if isinstance(some, list) for one in some if isinstance(one, dict)]


def _without(row: Row, person: Person) -> Row:
    """The same line without what was made while this user stood in for another."""
    if not any(one.get("user_id") == person.id for one in _controls(row)):
        return row
    kept = dict(row)
    for name in CONTROLS:
        some = row.get(name)
        if isinstance(some, list):
            kept[name] = [one for one in some if not (isinstance(one, dict) and one.get("user_id") == person.id)]
    return {name: value for name, value in kept.items() if value or name not in CONTROLS}


def _texts(row: Row) -> list[str]:
    return [text for one in (row, *_controls(row)) for text in texts_of(one)]


def _quotes(row: Row, person: Person) -> bool:
    return any(mine in text for text in _texts(row) for mine in person.wrote)
