"""Two runs side by side: which differences are real, on the items both rated."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.evaluation._evaluate import EVALUATION
from palate.evaluation._paired import as_difference, paired
from palate.evaluation._ratings import Rated, Ratings
from palate.evaluation._results import Difference
from palate.evaluation._run import ITEMS, RATINGS, RatedItem, Settings
from palate.records import PalateError
from palate.runs import Run, open_run
from palate.stats import Resample, Resamples


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `palate compare` says. `rm` and `than` carry the run's name where both runs have such a model."""

    runs: list[str]
    items: int
    """Items that both runs hold."""
    users: int
    resampled: str
    """`users`, or `users and items` where users judge the same items."""
    differences: list[Difference]
    """Every model of the first run against every model of the second, under each view that both have."""


def compare(first: str | Path, second: str | Path, *, seed: int = 0, resample: Resample = "auto") -> RunComparison:
    """Pair the ratings of two runs of the same benchmark item by item."""
    runs = [open_run(Path(folder), EVALUATION) for folder in (first, second)]
    if runs[0].folder.resolve() == runs[1].folder.resolve():
        raise PalateError(f"{first} and {second} are the same run")
    items = _shared_items(*runs)
    views = [view.name for view in runs[0].settings.views]
    views = [view.name for view in runs[1].settings.views if view.name in views]
    if not views:
        raise PalateError("the two runs have no view in common")
    labels = [[model.label for model in run.settings.models] for run in runs]
    clash = bool(set(labels[0]) & set(labels[1]))
    rows: dict[tuple[str, str], Rated] = {}
    names: list[list[str]] = []
    for run, own in zip(runs, labels, strict=True):
        renamed = {label: f"{label} ({run.folder.name})" if clash else label for label in own}
        names.append(list(renamed.values()))
        rows.update({(name, view): {} for name in renamed.values() for view in views})
        for line in run.read(RATINGS):
            if line.view in views:
                rows[renamed[line.rm], line.view][line.item, line.draw] = line.rating
    ratings = Ratings(items, rows, resample=resample)
    asked = [((one, view), (other, view)) for view in views for one in names[0] for other in names[1]]
    found = paired(ratings, asked, Resamples(ratings.n_clusters, seed=seed))
    return RunComparison(
        runs=[str(run.folder) for run in runs],
        items=len(items),
        users=len({item.user_id for item in items}),
        resampled="users and items" if ratings.units else "users",
        differences=[as_difference(difference) for difference in found],
    )


def _shared_items(first: Run[Settings], second: Run[Settings]) -> list[RatedItem]:
    others = {item.id: item for item in second.read(ITEMS)}
    shared = [item for item in first.read(ITEMS) if item.id in others]
    if not shared:
        raise PalateError(f"{first.folder} and {second.folder} have no item in common")
    for item in shared:
        if item != others[item.id]:
            raise PalateError(
                f"item {item.id!r} is not the same in both runs: they are of different benchmarks or versions"
            )
    return shared
