"""The ratings of a run as arrays, and which of its users are independent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palate.evaluation._run import ITEMS, RATINGS, RatedItem, RatingLine, Settings, in_benchmark_order
from palate.records import Rating
from palate.rewards import read_again
from palate.runs import VIEWS, Run, ViewLine
from palate.stats import (
    FEWEST_UNITS,
    SHARE,
    Floats,
    Quantity,
    Resample,
    Statistic,
    Units,
    cluster_totals,
    credit,
    independent_clusters,
    item_texts,
    ratio,
    shared_units,
)
from palate.views import ViewSpec

Rated = dict[tuple[str, int], Rating]
"""Ratings by item id and by which of the view's strangers the item was shown with."""


class Ratings:
    """The ratings of one run as arrays: a row of credits for each model and view."""

    def __init__(
        self,
        items: Sequence[RatedItem],
        ratings: Mapping[tuple[str, str], Rated],
        shown: Sequence[ViewLine] = (),
        views: Sequence[ViewSpec] = (),
        lost: int = 0,
        resample: Resample = "auto",
    ) -> None:
        self.items = items
        self.lost = lost
        """Items that the run held once and holds no more."""
        self._resample: Resample = resample
        self._ratings = ratings
        self._draws = {view.name: view.draws for view in views}
        self._place = {item.id: index for index, item in enumerate(items)}
        self._shown: dict[str, list[ViewLine]] = {}
        for line in shown:
            self._shown.setdefault(line.view, []).append(line)
        self._by_name = {view.name for view in views if view.shows("user")}
        self.credits = {key: self._credits(rated) for key, rated in ratings.items()}
        """By model and view: 1 right, 0 wrong, a share when tied, nan when unscored; the mean over strangers."""

    @classmethod
    def of(cls, run: Run[Settings], *, again: bool = False, resample: Resample = "auto") -> Ratings:
        """Read a run; with `again`, verdicts and grades again from the models' own words."""
        items = list(run.read(ITEMS))
        keys = [(model.label, view.name) for model in run.settings.models for view in run.settings.views]
        ratings: dict[tuple[str, str], Rated] = {key: {} for key in keys}
        places = {item.id: item for item in items}
        rated: set[str] = set()
        for line in run.read(RATINGS):
            rated.add(line.item)
            if (line.rm, line.view) in ratings and line.item in places:
                rating = _read_again(line, places, run.settings.seed) if again else line.rating
                ratings[line.rm, line.view][line.item, line.draw] = rating
        lost = run.lost_items(places, rated)
        return cls(items, ratings, list(run.read(VIEWS)), run.settings.views, lost, resample)

    def shown(self, view: str) -> list[ViewLine]:
        """What the items were shown with under this view."""
        return self._shown.get(view, [])

    def empty(self, view: str) -> NDArray[np.bool_]:
        """Which items had nothing to show under this view, or a user of whom a trained model knows nothing."""
        empty, full = (np.zeros(len(self.items), dtype=bool) for _ in range(2))
        for line in self.shown(view):
            if line.item in self._place:
                place = self._place[line.item]
                known = view in self._by_name and self.items[place].known != 0
                (full if line.parts or known else empty)[place] = True
        return empty & ~full

    def rated(self, rm: str, view: str) -> Rated:
        """By item id and by which of the view's strangers it was rated with."""
        return self._ratings[rm, view]

    def items_where(self, rm: str, view: str, holds: Callable[[Rating], bool]) -> int:
        """The number of items of which this is true for a rating."""
        return len({item for (item, _), rating in self.rated(rm, view).items() if holds(rating)})

    @property
    def missing(self) -> int:
        """How many ratings are still to be made, and how many items are lost."""
        return self.to_make + self.lost

    @property
    def to_make(self) -> int:
        """How many ratings are still to be made."""
        return sum(
            len(self.items) * self._draws.get(view, 1) - len(rated) for (_, view), rated in self._ratings.items()
        )

    def _credits(self, rated: Rated) -> Floats:
        totals, counts = np.zeros(len(self.items)), np.zeros(len(self.items))
        for (item, _), rating in rated.items():
            place = self._place.get(item)
            if place is not None and rating.scores is not None:
                totals[place] += credit(rating.scores, self.items[place].preferred)
                counts[place] += 1
        with np.errstate(invalid="ignore"):
            return totals / counts

    @cached_property
    def users(self) -> NDArray[np.intp]:
        """A code for each item's user."""
        return np.unique([item.user_id for item in self.items], return_inverse=True)[1]

    @cached_property
    def clusters(self) -> NDArray[np.intp]:
        """A code for each item's user, the same for users who share twins: they are not independent."""
        return independent_clusters(self.items)

    @cached_property
    def n_clusters(self) -> int:
        """How many independent units there are."""
        return int(self.clusters.max()) + 1

    @cached_property
    def units(self) -> Units | None:
        """The items or groups of items that are resampled as users are; None where users alone are."""
        return shared_units(self.items, self.clusters, self._resample)

    @property
    def too_few_units(self) -> int:
        """The number of items, where users share them and they are too few to say anything about new ones; or 0."""
        if self.units is not None or self._resample == "users":
            return 0
        number = len({item_texts(item) for item in self.items})
        return number if number < FEWEST_UNITS and self.n_clusters > number else 0

    @cached_property
    def longer(self) -> NDArray[np.int8]:
        """1 where the preferred response is longer than every other, -1 where shorter than every other."""
        signs = []
        for item in self.items:
            own = len(item.responses[item.preferred])
            others = [len(text) for index, text in enumerate(item.responses) if index != item.preferred]
            signs.append(int(own > max(others)) - int(own < min(others)))
        return np.asarray(signs, dtype=np.int8)

    def totals(self, *columns: Floats) -> Floats:
        """Columns of items, added up by cluster."""
        return cluster_totals(np.stack(columns, axis=1), self.clusters, self.n_clusters)

    def quantity(self, *columns: Floats, statistic: Statistic = ratio, within: tuple[float, float]) -> Quantity:
        """What is computed from the sums of columns of items, to be resampled as this run's items ask for."""
        crossed = self.units.totals(*columns) if self.units else None
        return Quantity(self.totals(*columns), statistic, within, crossed)

    def mean(
        self, values: Floats, where: NDArray[np.bool_] | None = None, *, within: tuple[float, float] = SHARE
    ) -> Quantity:
        """The mean of what all items earned, or some; unscored ones are left out."""
        return self.quantity(*self.scored_columns(values, where), within=within)

    def scored_columns(self, values: Floats, where: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
        """Credit, and 1 for every item that has a score; 0 elsewhere."""
        scored = ~np.isnan(values) if where is None else ~np.isnan(values) & where
        return np.where(scored, values, 0.0), scored.astype(float)

    def count_users(self, where: NDArray[np.bool_]) -> int:
        """How many users these items belong to."""
        return len(np.unique(self.users[where]))


def _read_again(line: RatingLine, items: dict[str, RatedItem], seed: int) -> Rating:
    """What was written is in the order in which the responses were presented, and so are its scores."""
    found = read_again(line.rating)
    return line.rating if found is line.rating else in_benchmark_order(found, items[line.item], seed)
