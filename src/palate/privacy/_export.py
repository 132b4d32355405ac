"""Everything that is held on one user, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from palate import __version__
from palate.personal import state_of
from palate.privacy._export_runs import RunExport, export_runs
from palate.privacy._person import Person
from palate.privacy._places import linked_folders
from palate.privacy._pushed import pushes_of, read_pushes
from palate.records import Benchmark, Card, Comparison, Completion, PalateError, User
from palate.runs import Progress

SHARED = (
    "if {path} was trained on this user, what the weights that it has for everybody keep of them cannot be told apart, "
    "and is not in here; neither are its marks, which are hashes of choices"
)

LINKED = "{path} is a link to a folder, which was not read: name the model or the run in it, too"


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What is held on one user."""

    time: str
    benchmark: Card
    user: User
    comparisons: list[Comparison]
    completions: list[Completion]
    offered_to_others: list[str]
    """Ids of others' items that offer a text which this user wrote."""
    runs: list[RunExport]
    models: dict[str, list[list[float]]]
    """By folder, the numbers that a trained model keeps of this user."""
    notes: list[str]
    """What is held and not in here, or may be, and why."""
    palate: str = __version__


def export_user(
    benchmark: Benchmark,
    user: str,
    runs: Sequence[Path] = (),
    models: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Export:
    """Gather it, also from models in the runs; an unknown id is refused without naming anybody else."""
    if user not in benchmark.users:
        raise PalateError(f"{benchmark.card.name} has no such user; ids are matched exactly")
    own = benchmark.users[user]
    completions = [item for item in benchmark.completions if item.user_id == user]
    wrote = {post.text for post in own.posts} | {item.text for item in completions if item.text}
    offered = [item.id for item in benchmark.comparisons if item.user_id != user and wrote & set(item.responses)]
    offered += [item.id for item in benchmark.completions if item.user_id != user and wrote & set(item.alternatives)]
    person = Person(frozenset([user]))
    person.learn(benchmark)
    held, notes = export_runs(benchmark, person, runs, progress or (lambda what, done, total: None))
    inside = [file.parent for one in held for file in sorted(Path(one.run).glob("models/**/model.json"))]
    every = list({folder.resolve(): folder for folder in (*models, *inside)}.values())
    linked = [LINKED.format(path=path) for one in held for path in linked_folders(Path(one.run))]
    return Export(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        benchmark=benchmark.card,
        user=own,
        comparisons=[item for item in benchmark.comparisons if item.user_id == user],
        completions=completions,
        offered_to_others=offered,
        runs=held,
        models={str(folder): state for folder in every if (state := state_of(folder, user)) is not None},
        notes=[*notes, *linked, *(SHARED.format(path=folder) for folder in every), *_pushed(benchmark, runs)],
    )


def _pushed(benchmark: Benchmark, runs: Sequence[Path]) -> list[str]:
    """What of it was sent to a hub, where its content or the folder of a run is known there."""
    if not (every := read_pushes()):
        return []
    found = [one for one in every if one.what == "benchmark" and one.content_hash == benchmark.content_hash]
    found += [one for folder in runs for one in pushes_of(folder)]
    return list(dict.fromkeys(f"{one.sentence}, with what is held on this user there" for one in found))
