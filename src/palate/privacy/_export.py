"""Everything that is held on one user, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from palate import __version__
from palate.evaluate import Run
from palate.personal import state_of
from palate.records import Benchmark, Card, Comparison, Completion, PalateError, User


class RunExport(msgspec.Struct, frozen=True, kw_only=True):
    """What one run holds on a user."""

    run: str
    items: list[object]
    ratings: list[object]
    views: list[object]
    """Views that show this user, also those that were put in another user's place."""
    parts: dict[str, str]
    """The texts of those views."""


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
    palate: str = __version__


def export_user(benchmark: Benchmark, user: str, runs: Sequence[Path] = (), models: Sequence[Path] = ()) -> Export:
    """Gather it; an unknown id is refused without naming anybody else."""
    if user not in benchmark.users:
        raise PalateError(f"{benchmark.card.name} has no such user; ids are matched exactly")
    own = benchmark.users[user]
    completions = [item for item in benchmark.completions if item.user_id == user]
    wrote = {post.text for post in own.posts} | {item.text for item in completions if item.text}
    offered = [item.id for item in benchmark.comparisons if item.user_id != user and wrote & set(item.responses)]
    offered += [item.id for item in benchmark.completions if item.user_id != user and wrote & set(item.alternatives)]
    return Export(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        benchmark=benchmark.card,
        user=own,
        comparisons=[item for item in benchmark.comparisons if item.user_id == user],
        completions=completions,
        offered_to_others=offered,
        runs=[_from_run(folder, user) for folder in runs],
        models={str(folder): state for folder in models if (state := state_of(folder, user)) is not None},
    )


def _from_run(folder: Path, user: str) -> RunExport:
    run = Run.open(folder)
    items = [item for item in run.items() if item.user_id == user]
    ids = {item.id for item in items}
    views = [view for view in run.views() if view.user_id == user or view.item in ids]
    shown = {key for view in views if view.user_id == user for key in view.parts}
    return RunExport(
        run=str(folder),
        items=list(items),
        ratings=[line for line in run.ratings() if line.item in ids],
        views=list(views),
        parts={key: text for key, text in run.parts().items() if key in shown},
    )
