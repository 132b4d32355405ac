"""The ratings of a run as arrays, and which of its users are independent."""

from __future__ import annotations

import hashlib
import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palate.evaluation._run import ITEMS, RATINGS, RatedItem, RatingLine, Settings, in_benchmark_order
from palate.evaluation._shown import Names, Shown
from palate.records import PalateError, Rating
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
    codes_in_order,
    credit,
    distinct,
    independent_clusters,
    item_texts,
    ratio,
    shared_units,
)
from palate.views import ViewSpec

Rated = dict[tuple[str, int], Rating]
"""Ratings by item id and by which of the view's strangers the item was shown with."""
MOST_BROWSED = 500
"""Items whose ratings are kept whole, so that a page can show them; of the others only what they come to is."""


class Tally:
    """What the ratings of one model under one view come to, as columns over the items."""

    def __init__(self, items: int) -> None:
        self.made = 0
        """How many ratings there are, with each of the view's strangers."""
        self._totals, self._counts = np.zeros(items), np.zeros(items, np.uint16)
        self.rated, self.tied, self.noted = (np.zeros(items, dtype=bool) for _ in range(3))
        """Which items have a rating at all, one of equal scores, and one with a score and a note."""
        self.verdicts: Counter[tuple[str, str]] = Counter()
        """A judge's verdicts on a pair, in one order and in the other."""
        self.claimed: list[tuple[Sequence[float], int]] = []
        """The probabilities of scored items, with which response was preferred."""
        self._unscored = array("I"), array("I")
        """The items of ratings without a score, and the numbers of the reasons."""
        self._reasons: dict[str | None, int] = {}

    def add(self, place: int, preferred: int, rating: Rating) -> None:
        """Count one rating of the item at this place."""
        self.made += 1
        self.rated[place] = True
        for pair in range(0, len(rating.verdicts or ()), 2):
            assert rating.verdicts is not None
            self.verdicts[rating.verdicts[pair], rating.verdicts[pair + 1]] += 1
        if rating.scores is None:
            self._unscored[0].append(place)
            self._unscored[1].append(self._reasons.setdefault(rating.unscored, len(self._reasons)))
            return
        self._totals[place] += credit(rating.scores, preferred)
        self._counts[place] += 1
        if rating.scores.count(max(rating.scores)) > 1:
            self.tied[place] = True
        if rating.note:
            self.noted[place] = True
        if rating.probabilities is not None:
            self.claimed.append((rating.probabilities, preferred))

    @cached_property
    def credits(self) -> Floats:
        """1 right, 0 wrong, a share when tied, nan when unscored; the mean over strangers, once all are counted."""
        with np.errstate(invalid="ignore"):
            return np.divide(self._totals, self._counts, out=self._totals)

    @property
    def reasons(self) -> Counter[str | None]:
        """Why the items without any score have none."""
        reasons = list(self._reasons)
        places = zip(*self._unscored, strict=True)
        return Counter(reasons[reason] for place, reason in places if not self._counts[place])


class Ratings:
    """The ratings of one run as arrays: a row of credits for each model and view."""

    def __init__(
        self,
        items: Sequence[RatedItem],
        ratings: Mapping[tuple[str, str], Rated | Tally],
        shown: Iterable[ViewLine] = (),
        views: Sequence[ViewSpec] = (),
        lost: int = 0,
        resample: Resample = "auto",
        names: Names | None = None,
    ) -> None:
        self.items = items
        self.lost = lost
        """Items that the run held once and holds no more."""
        self.browsed: dict[tuple[str, str], Rated] = {}
        """By model and view, the ratings of the items that a page shows."""
        self._resample: Resample = resample
        self._draws = {view.name: view.draws for view in views}
        self._names = Names(item.id for item in items) if names is None else names
        self._shown: dict[str, Shown] = {}
        for line in shown:
            if line.view not in self._shown:
                self._shown[line.view] = Shown(items=self._names)
            self._shown[line.view].add(line)
        self._by_name = {view.name for view in views if view.shows("user")}
        self._tallies = {
            key: rated if isinstance(rated, Tally) else self._tallied(rated) for key, rated in ratings.items()
        }
        self.credits = {key: tally.credits for key, tally in self._tallies.items()}
        """By model and view: 1 right, 0 wrong, a share when tied, nan when unscored; the mean over strangers."""

    @classmethod
    def of(
        cls, run: Run[Settings], *, again: bool = False, resample: Resample = "auto", whole: bool = False
    ) -> Ratings:
        """Read a run, each line once; with `again`, verdicts and grades again from the models' own words.

        With `whole`, the ratings of all items are kept, and not only of those that a page shows.
        """
        items = ITEMS.records(run.folder)
        keys = [(model.label, view.name) for model in run.settings.models for view in run.settings.views]
        tallies = {key: Tally(len(items)) for key in keys}
        names = Names(item.id for item in items)
        preferred = np.fromiter((item.preferred for item in items), np.uint32)
        sizes = np.fromiter((len(item.responses) for item in items), np.uint32)
        browsed = {item.id for item in (items if whole else browsed_items(items))}
        kept: dict[tuple[str, str], Rated] = {key: {} for key in keys}
        gone: set[str] = set()
        for line in run.read(RATINGS):
            key, place = (line.rm, line.view), names.number(line.item)
            if place is None:
                gone.add(line.item)
            elif key in tallies:
                rating = _read_again(line, items[place], run.settings.seed) if again else line.rating
                if not _fits(rating, size := int(sizes[place])):
                    raise PalateError(
                        f"{run.folder / RATINGS.name}: {line.rm} rates item {line.item[:80]!r} otherwise than with one "
                        f"number for each of its {size} responses. Put the file back from a copy"
                    )
                tallies[key].add(place, int(preferred[place]), rating)
                if line.item in browsed:
                    kept[key][line.item, line.draw] = rating
        lost = run.lost_items((), gone)
        ratings = cls(items, tallies, run.read(VIEWS), run.settings.views, lost, resample, names)
        ratings.browsed = kept
        return ratings

    def _tallied(self, rated: Rated) -> Tally:
        tally = Tally(len(self.items))
        for (item, _), rating in rated.items():
            place = self._names.number(item)
            if place is not None and place < len(self.items):
                tally.add(place, self.items[place].preferred, rating)
        return tally

    def shown(self, view: str) -> Shown:
        """What the items were shown with under this view."""
        return self._shown.get(view, Shown())

    def empty(self, view: str) -> NDArray[np.bool_]:
        """Which items had nothing to show under this view, or a user of whom a trained model knows nothing."""
        empty, full = (np.zeros(len(self.items), dtype=bool) for _ in range(2))
        if view in self._shown:
            places, parts = self._shown[view].items, self._shown[view].column(lambda line: bool(line.parts))
            there = parts[places < len(self.items)] > 0
            places = places[places < len(self.items)]
            if view in self._by_name:
                there = there | np.array([item.known != 0 for item in self.items], bool)[places]
            full[places[there]], empty[places[~there]] = True, True
        return empty & ~full

    def tally(self, rm: str, view: str) -> Tally:
        """What the ratings of a model under a view come to."""
        return self._tallies[rm, view]

    @property
    def missing(self) -> int:
        """How many ratings are still to be made, and how many items are lost."""
        return self.to_make + self.lost

    @property
    def to_make(self) -> int:
        """How many ratings are still to be made."""
        return sum(
            len(self.items) * self._draws.get(view, 1) - tally.made for (_, view), tally in self._tallies.items()
        )

    @property
    def users(self) -> NDArray[np.intp]:
        """A code for each item's user: the place in the list of names."""
        return self._users[1]

    @property
    def user_names(self) -> list[str]:
        """Everybody, in order."""
        return self._users[0]

    @cached_property
    def _users(self) -> tuple[list[str], NDArray[np.intp]]:
        return codes_in_order(item.user_id for item in self.items)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """How many responses each item has."""
        return np.fromiter((len(item.responses) for item in self.items), np.intp)

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
        number = distinct(map(item_texts, self.items))
        return number if number < FEWEST_UNITS and self.n_clusters > number else 0

    @cached_property
    def twins(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places of the items that have a twin further down, and of those."""
        twins = [(place, self._names.number(item.twin)) for place, item in enumerate(self.items) if item.twin]
        there = [(place, twin) for place, twin in twins if twin is not None and place < twin < len(self.items)]
        later = np.array(there, np.intp).reshape(-1, 2)
        return later[:, 0], later[:, 1]

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
        return self.quantity_of(lambda: columns, statistic=statistic, within=within)

    def quantity_of(
        self, columns: Callable[[], tuple[Floats, ...]], *, statistic: Statistic = ratio, within: tuple[float, float]
    ) -> Quantity:
        """The same of columns that are made again when they are needed, and not held until then."""
        units = self.units
        crossed = (lambda: units.totals(*columns())) if units else None
        return Quantity(self.totals(*columns()), statistic, within, crossed)

    def mean(
        self,
        values: Floats | Callable[[], Floats],
        where: NDArray[np.bool_] | Callable[[], NDArray[np.bool_]] | None = None,
        *,
        within: tuple[float, float] = SHARE,
    ) -> Quantity:
        """The mean of what all items earned, or some; unscored ones are left out. A function makes a column when it is
        needed, so that it is not held until then."""

        def columns() -> tuple[Floats, Floats]:
            return self.scored_columns(values() if callable(values) else values, where() if callable(where) else where)

        return self.quantity_of(columns, within=within)

    def scored_columns(self, values: Floats, where: NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
        """Credit, and 1 for every item that has a score; 0 elsewhere."""
        scored = ~np.isnan(values) if where is None else ~np.isnan(values) & where
        return np.where(scored, values, 0.0), scored.astype(float)

    def count_users(self, where: NDArray[np.bool_]) -> int:
        """How many users these items belong to."""
        return len(np.unique(self.users[where]))


def _fits(rating: Rating, count: int) -> bool:
    """Whether a rating, which may come from a stranger, can be one of an item of so many responses."""
    return all(numbers is None or len(numbers) == count for numbers in (rating.scores, rating.probabilities))


def browsed_items(items: Sequence[RatedItem]) -> list[RatedItem]:
    """The items that a page shows: all of them, or as many as it can hold, drawn by their ids."""
    drawn = heapq.nsmallest(
        MOST_BROWSED, items, key=lambda item: hashlib.sha256((item.group or item.id).encode()).digest()
    )
    kept = {item.id for item in drawn}
    return [item for item in items if item.id in kept]


def _read_again(line: RatingLine, item: RatedItem, seed: int) -> Rating:
    """What was written is in the order in which the responses were presented, and so are its scores."""
    found = read_again(line.rating)
    return line.rating if found is line.rating else in_benchmark_order(found, item, seed)
