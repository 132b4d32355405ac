"""Runs side by side: which differences are real, on the items that all of them rated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from palate.evaluation._evaluate import EVALUATION
from palate.evaluation._order import is_control
from palate.evaluation._paired import as_difference, paired
from palate.evaluation._ratings import Rated, Ratings
from palate.evaluation._results import Difference
from palate.evaluation._run import ITEMS, RATINGS, RatedItem, Settings
from palate.records import PalateError
from palate.runs import VIEWS, Run, open_run
from palate.stats import Resample, Resamples
from palate.views import ViewSpec, resolve_views  # noqa: F401 -- the second for an example

Strangers = dict[str, dict[tuple[str, int], str | None]]
"""Of each view of other people, whose profile was shown with an item, by item and draw."""


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `palate compare` says. `rm` and `than` carry the run's name where several runs have such a model."""

    runs: list[str]
    items: int
    """Items that all runs hold."""
    users: int
    resampled: str
    """`users`, or `users and items` where users judge the same items."""
    differences: list[Difference]
    """Every model of each run against every model of each later one, under each view that both have."""
    unmatched: list[str] = []
    """What could not be compared, in words: views, items, strangers, ratings that are still to be made."""


def compare(*folders: str | Path, seed: int = 0, resample: Resample = "auto", controls: bool = False) -> RunComparison:
    """Pair the ratings of runs of the same benchmark item by item.

    Views are matched by what they show: `swapped` beside `posts:5` is not `swapped` beside `judgements:4`. Two controls
    are compared with each other only with `controls`.
    """
    runs: list[Run[Settings]] = [open_run(Path(folder), EVALUATION) for folder in folders]
    if len(runs) < 2:
        raise PalateError("name two runs or more to compare")
    for one, other in combinations(runs, 2):
        if one.folder.resolve() == other.folder.resolve():
            raise PalateError(f"{one.folder} and {other.folder} are the same run")
    items = _shared_items(runs)
    labels = [model.label for run in runs for model in run.settings.models]
    rows: dict[tuple[str, str], Rated] = {}
    names: list[list[str]] = []
    blind: set[str] = set()
    for run in runs:
        renamed = {
            model.label: f"{model.label} ({run.folder.name})" if labels.count(model.label) > 1 else model.label
            for model in run.settings.models
        }
        names.append(list(renamed.values()))
        blind.update(name for label, name in renamed.items() if is_control(label))
        shown = {view.name: stands_for(view) for view in run.settings.views}
        rows.update({(name, view): {} for name in renamed.values() for view in shown.values()})
        for line in run.read(RATINGS):
            if line.view in shown:
                rows[renamed[line.rm], shown[line.view]][line.item, line.draw] = line.rating
    strangers = [_strangers(run, {item.id for item in items}) for run in runs]
    asked = [
        ((one, view), (other, view))
        for first, second in combinations(range(len(runs)), 2)
        for view in map(stands_for, runs[second].settings.views)
        if view in map(stands_for, runs[first].settings.views)
        if not other_strangers(strangers[first], strangers[second], view)
        for one in names[first]
        for other in names[second]
        if controls or not {one, other} <= blind
    ]
    unmatched = [*_unfinished(runs, items), *_unmatched(runs, strangers, len(items))]
    if not asked:
        raise PalateError(
            f"the {len(runs) if len(runs) > 2 else 'two'} runs have nothing to compare: "
            + ("; ".join(unmatched) or "all their models are controls; add --controls to compare those")
        )
    ratings = Ratings(items, rows, resample=resample)
    found = paired(ratings, asked, Resamples(ratings.n_clusters, seed=seed))
    return RunComparison(
        runs=[str(run.folder) for run in runs],
        items=len(items),
        users=len({item.user_id for item in items}),
        resampled="users and items" if ratings.units else "users",
        differences=[as_difference(difference) for difference in found],
        unmatched=unmatched,
    )


def stands_for(view: ViewSpec) -> str:
    """What a view shows, whatever a run calls it: a bare `swapped` means another profile in each run.

    >>> [stands_for(view) for view in resolve_views(["posts:5", "swapped"])]
    ['posts:5', 'swapped:posts:5']
    """
    return view.name if view.whose == "own" else f"{view.whose}:{view.of}"


def _strangers(run: Run[Settings], items: set[str]) -> Strangers:
    """Whose profile each item was shown with, under each view of other people."""
    named = {view.name: stands_for(view) for view in run.settings.views if view.whose != "own"}
    found: Strangers = {view: {} for view in named.values()}
    for line in run.read(VIEWS) if named else ():
        if line.view in named and line.item in items:
            found[named[line.view]][line.item, line.draw] = line.user_id
    return found


def other_strangers(one: Strangers, other: Strangers, view: str) -> int:
    """For how many profiles of a view two runs showed the same item with different people."""
    first, second = one.get(view, {}), other.get(view, {})
    return sum(first[key] != second[key] for key in first.keys() & second.keys())


def _unfinished(runs: Sequence[Run[Settings]], items: Sequence[RatedItem]) -> Iterator[str]:
    """Runs that have not rated all of these items yet."""
    names = {item.id for item in items}
    for run in runs:
        draws = len(run.settings.models) * sum(view.draws for view in run.settings.views)
        made = len({(line.rm, line.view, line.item, line.draw) for line in run.read(RATINGS) if line.item in names})
        if left := draws * len(names) - made:
            yield f"{left:,} of {draws * len(names):,} ratings of {run.folder.name} are still to be made"


def _unmatched(runs: Sequence[Run[Settings]], strangers: Sequence[Strangers], items: int) -> list[str]:
    """Which views and items a run has alone, and views in which two runs showed different strangers."""
    found = []
    shown = [[stands_for(view) for view in run.settings.views] for run in runs]
    for run, views in zip(runs, shown, strict=True):
        for view in views:
            if sum(view in others for others in shown) == 1:
                found.append(f"only {run.folder.name} has the view {view}")
        own = sum(1 for _ in run.read(ITEMS))
        if own > items:
            found.append(f"{own - items} of {own} items of {run.folder.name} are not in every run")
    for one, other in combinations(range(len(runs)), 2):
        if runs[one].settings.content_hash != runs[other].settings.content_hash:
            found.append(
                f"what {runs[one].folder.name} and {runs[other].folder.name} show of a person: they are of two "
                "versions of the data, which agree in these items and may differ in the history"
            )
        for view in sorted(strangers[one].keys() & strangers[other].keys()):
            if differ := other_strangers(strangers[one], strangers[other], view):
                found.append(
                    f"{view} in {runs[one].folder.name} and {runs[other].folder.name}: {differ} of "
                    f"{len(strangers[one][view])} profiles are of different strangers. Take the same --seed"
                )
    return found


def _as_asked(item: RatedItem) -> RatedItem:
    """The item without what only a training run keeps of it, so that `palate eval` and `palate train` compare."""
    return msgspec.structs.replace(item, known=None)


def _named_by_row(item: RatedItem) -> str:
    """What to do about items that a table without ids names after the place of their row."""
    if item.id.removeprefix(f"{item.user_id}-").isdigit() and item.id != item.user_id:
        return (
            ". It is named after its row, as in a table without ids: rows that were added, removed or moved change the "
            "names of those below. Give the rows a column `id` in both tables, and evaluate again"
        )
    return ""


def _shared_items(runs: Sequence[Run[Settings]]) -> list[RatedItem]:
    """The items of the first run that all others have as well."""
    shared = {item.id: item for item in runs[0].read(ITEMS)}
    for run in runs[1:]:
        others = {item.id: item for item in run.read(ITEMS)}
        shared = {name: item for name, item in shared.items() if name in others}
        if not shared:
            raise PalateError(f"{runs[0].folder} and {run.folder} have no item in common")
        for name, item in shared.items():
            if _as_asked(item) != _as_asked(others[name]):
                raise PalateError(
                    f"item {name!r} is not the same in both runs, {runs[0].folder} and {run.folder}: they are of "
                    f"different benchmarks or versions{_named_by_row(item)}"
                )
    return list(shared.values())
