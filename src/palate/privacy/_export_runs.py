"""What runs of every kind hold on one user, and the samples that runs share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palate.downstream import BonRun, GuideRun, PpoRun, SampleSettings, SteerRun, is_samples
from palate.evaluation import Run
from palate.privacy._person import Person
from palate.privacy._rewrite_lines import Row
from palate.privacy._run_export import Reading, RunExport
from palate.privacy._text_folders import LINES, shared_samples, shown_by, shown_in
from palate.privacy._training_folder import CONTROLS
from palate.records import Benchmark, PalateError
from palate.runs import Progress, RunFolder

BORROWED = (
    "{path}: {count} lines on others' items were made while this user's profile was shown; being about others, they "
    "are not in here"
)
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


def export_runs(
    benchmark: Benchmark, person: Person, folders: Sequence[Path], report: Progress
) -> tuple[list[RunExport], list[str]]:
    """One for each run, part of a table and folder of samples; and the notes."""
    notes: list[str] = []
    named = [folder for folder in folders if is_samples(folder)]
    runs = _each_once(part for folder in folders if folder not in named for part in _parts(folder, notes))
    runs.sort(key=PpoRun.is_one)  # the others tell whose the items are
    # Where a comparison and a completion share an id, every run takes the comparison.
    owner = {item.id: item.user_id for item in benchmark.completions}
    owner |= {item.id: item.user_id for item in benchmark.comparisons}
    owners: Owners = {benchmark.content_hash: owner}
    found = []
    for place, folder in enumerate(runs):
        report(f"reading {folder}", place, len(runs) + 1)
        found.append(_read_run(Reading(folder, person, notes), owners))
    report("reading samples", len(runs), len(runs) + 1)
    beside = [samples for folder in runs for samples in shared_samples(folder.resolve())]
    for folder in _each_once([*named, *beside]):
        drawn = _sample_settings(folder)
        if folder in named and drawn.content_hash not in owners:
            raise PalateError(NO_RUN.format(path=folder))
        found.append(_read_samples(Reading(folder, person, notes), drawn, owners.get(drawn.content_hash, {})))
    return found, notes


def _read_run(reading: Reading, owners: Owners) -> RunExport:
    """What one run holds; whose its items are is added to what is known of its benchmark."""
    folder, user = reading.folder, reading.person.id
    if PpoRun.is_one(folder):
        trained = PpoRun.open(folder)
        return _read_training(reading, trained, owners.get(trained.settings.content_hash, {}))
    kinds: tuple[type[RunFolder[Any]], ...] = (BonRun, GuideRun)
    kind = next((kind for kind in kinds if kind.is_one(folder)), Run)
    if (folder / "settings.json").is_file() and not (folder / "items.jsonl").is_file():
        raise PalateError(f"{folder} has no items.jsonl, so it is not known whose its lines are. Put the file back.")
    settings = kind.open(folder).settings
    items = reading.rows("items.jsonl")
    owners.setdefault(settings.content_hash, {}).update((str(row.get("id")), _owner(row)) for row in items)
    own = {str(row.get("id")) for row in reading.take("items.jsonl", items, lambda row: _owner(row) == user)}
    return _read_evaluation(reading, own) if kind is Run else _read_texts(reading, own, str(kind.kind))


def _read_evaluation(reading: Reading, own: set[str]) -> RunExport:
    user = reading.person.id
    views = reading.rows("views.jsonl")
    strange = {shown_by(row) for row in views if row.get("user_id") is not None and _owner(row) != user}
    borrowed = {shown_by(row) for row in views if _owner(row) == user and _item(row) not in own}
    shown = reading.take(
        "views.jsonl",
        views,
        lambda row: _item(row) in own or _owner(row) == user,
        lambda row: shown_by(row) in strange,
    )
    ratings = reading.rows("ratings.jsonl")
    reading.take("ratings.jsonl", ratings, lambda row: _item(row) in own, lambda row: shown_by(row) in strange)
    reading.note(BORROWED, sum(shown_by(row) in borrowed for row in ratings))
    keys = {key for row in shown if isinstance(parts := row.get("parts"), list) for key in map(str, parts)}
    texts = reading.take("parts.jsonl", reading.rows("parts.jsonl"), lambda row: str(row.get("key")) in keys)
    reading.lines["parts"] = {str(row.get("key")): str(row.get("text")) for row in texts}
    reading.summary("user_accuracies", lambda row: _owner(row) == user)
    return reading.done("evaluation")


def _read_texts(reading: Reading, own: set[str], kind: str) -> RunExport:
    user = reading.person.id
    views = reading.rows("views.jsonl")
    strange = {shown_by(row) for row in views if row.get("user_id") is not None and _owner(row) != user}
    borrowed = {shown_by(row) for row in views if _owner(row) == user and _item(row) not in own}

    def shows_others(row: Row) -> bool:
        return bool(strange & set(shown_in(row)))

    for name in (name for name in LINES if name != "views.jsonl"):
        rows = reading.rows(name)
        reading.take(name, rows, lambda row: _item(row) in own, shows_others)
        reading.note(BORROWED, sum(bool(borrowed & set(shown_in(row))) for row in rows), reading.folder / name)
    reading.take("views.jsonl", views, lambda row: _item(row) in own or _owner(row) == user, shows_others)
    return reading.done(kind)


def _read_samples(reading: Reading, drawn: SampleSettings, owner: dict[str, str]) -> RunExport:
    user = reading.person.id
    rows = reading.rows("samples.jsonl")
    reading.note(UNKNOWN, len({_item(row) for row in rows} - owner.keys()))
    reading.take("samples.jsonl", rows, lambda row: owner.get(_item(row)) == user, lambda row: "stranger" in row)
    reading.note(BORROWED, sum(row.get("stranger") == user for row in rows))
    return reading.done("samples")


def _read_training(reading: Reading, run: PpoRun, owner: dict[str, str]) -> RunExport:
    """The user's side, what was written for them if they were held out, and where the report shows it."""
    user, split = reading.person.id, run.split()
    strange = any(view.whose != "own" for view in (run.settings.view, run.settings.policy_view))
    rows = [_without_strangers(row) for row in reading.rows("held_out.jsonl")]
    views = reading.rows("views.jsonl")
    owner = owner | {_item(row): _owner(row) for row in rows}
    sides = {"train": (split.train_users, split.train_items), "test": (split.test_users, split.test_items)}
    for side, (users, items) in sides.items():
        if user in users:
            reading.lines["split"] = {"side": side, "items": [item for item in items if owner.get(item) == user]}
            reading.files[str(reading.folder / "split.json")] = 1
            reading.note(UNKNOWN, len(set(items) - owner.keys()), reading.folder / "split.json")
    if user in split.train_users:
        reading.notes.append(WEIGHTS.format(path=run.policy if run.policy.exists() else run.folder / "checkpoints"))
    reading.take("held_out.jsonl", rows, lambda row: _owner(row) == user, lambda row: strange)
    reading.take(
        "views.jsonl",
        views,
        lambda row: owner.get(_item(row)) == user or _owner(row) == user,
        lambda row: row.get("user_id") is not None and _owner(row) != user,
    )
    others = sum(_owner(row) == user and owner.get(_item(row)) != user for row in views)
    reading.note(BORROWED, others, reading.folder / "held_out.jsonl")
    reading.summary("examples", lambda row: not strange and owner.get(_item(row)) == user)
    return reading.done("ppo")


def _without_strangers(row: Row) -> Row:
    """A line of a held-out prompt without what was made while a stranger's profile was shown, which may repeat it."""
    kept = dict(row)
    for name in CONTROLS:
        some = row.get(name)
        if isinstance(some, list):
            kept[name] = [one for one in some if isinstance(one, dict) and one.get("user_id") is None]
    return {name: value for name, value in kept.items() if value or name not in CONTROLS}


def _parts(folder: Path, notes: list[str]) -> list[Path]:
    """The runs of a table, or the run itself."""
    if not (folder / "settings.json").is_file():
        raise PalateError(
            f"{folder} is not a run: it has no settings.json. Name the folder of a run (of palate eval, train, bon, "
            "guide, steer or ppo) or of samples of a policy."
        )
    if not SteerRun.is_one(folder):
        return [folder]
    parts = SteerRun.open(folder).folders()
    notes.append(TABLE.format(path=folder, parts=", ".join(part.name for part in parts)))
    return parts


def _each_once(folders: Iterable[Path]) -> list[Path]:
    """By where they lie; of several names the first stays."""
    found: dict[Path, Path] = {}
    for folder in folders:
        found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _sample_settings(folder: Path) -> SampleSettings:
    class Settled(msgspec.Struct):
        settings: SampleSettings

    file = folder / "settings.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Settled).settings
    except (msgspec.DecodeError, OSError) as error:
        raise PalateError(f"{file} cannot be read as that of samples of a policy: {error}") from error


def _owner(row: Row) -> str:
    return str(row.get("user_id"))


def _item(row: Row) -> str:
    return str(row.get("item"))
