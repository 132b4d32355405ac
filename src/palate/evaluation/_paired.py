"""What differs: one view from another, one model from another, on the items that both scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from palate.evaluation._order import is_control
from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Difference, Gain, OverBaseline
from palate.evaluation._slices import groupings, shown_groups
from palate.stats import GAIN, Floats, PairedTest, Resamples, paired_differences
from palate.views import ViewSpec

Key = tuple[str, str]
"""A model and a view."""

_FEW = 3
_FEW_OF_MANY = 0.02
"""A gain that would not be clear without so few users is said to be carried by few."""
ALL = "any"
"""The part of the items that is all of them."""


class Pair(NamedTuple):
    """Accuracy of one minus accuracy of the other, on a part of the items."""

    one: Key
    other: Key
    part: str
    test: PairedTest


def paired(
    ratings: Ratings,
    asked: Sequence[tuple[Key, Key]],
    resamples: Resamples,
    *,
    where_shown: bool = False,
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
) -> list[Pair]:
    """Every difference asked for, on every part of the items, less those with no item in common.

    With `where_shown`, items whose first view had nothing to show are left out. All of it is one table, over which
    the false discovery rate is held.
    """
    kept: list[tuple[str, Key, Key, NDArray[np.bool_]]] = []
    for part, members in (parts or {ALL: np.ones(len(ratings.items), dtype=bool)}).items():
        for one, other in asked:
            both = members & ~np.isnan(ratings.credits[one] + ratings.credits[other])
            if where_shown:
                both &= ~ratings.empty(one[1])
            if both.any():
                kept.append((part, one, other, both))
    quantities = [ratings.mean(partial(_gain, ratings, one, other), both, within=GAIN) for _, one, other, both in kept]
    return [
        Pair(one, other, part, PairedTest(n=int(both.sum()), users=ratings.count_users(both), **vars(difference)))
        for (part, one, other, both), difference in zip(kept, paired_differences(quantities, resamples), strict=True)
    ]


def _gain(ratings: Ratings, one: Key, other: Key) -> Floats:
    return ratings.credits[one] - ratings.credits[other]


def gains(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Gain]:
    """Each view over `none`, and each profile over the same kind of profile of somebody else."""
    asked: list[tuple[Key, Key]] = []
    for label in labels:
        for view in views:
            over = [other.name for other in views if other.name == "none" != view.name]
            if view.whose == "own":
                over += [other.name for other in views if other.whose != "own" and other.of == view.name]
            asked += [((label, view.name), (label, name)) for name in over]
    found = paired(ratings, asked, resamples, where_shown=True)
    return [Gain(rm=pair.one[0], view=pair.one[1], over=pair.other[1], **asdict(pair.test)) for pair in found]


def differences(
    ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples
) -> list[Difference]:
    """Every two models under the same view, less two controls, which no report shows against each other."""
    pairs = [pair for pair in combinations(labels, 2) if not all(map(is_control, pair))]
    asked = [((one, view.name), (other, view.name)) for view in views for one, other in pairs]
    return [as_difference(pair) for pair in paired(ratings, asked, resamples)]


def as_difference(pair: Pair) -> Difference:
    """The same, said of two models under one view."""
    return Difference(view=pair.one[1], rm=pair.one[0], than=pair.other[0], **asdict(pair.test))


def few_carry(carried_by: int | None, users: int) -> bool:
    """Whether a clear difference would not be clear without a handful of users.

    >>> few_carry(2, users=60), few_carry(12, users=60), few_carry(12, users=1_000)
    (True, False, True)
    """
    return carried_by is not None and carried_by <= max(_FEW, _FEW_OF_MANY * users)


def over_baseline(
    ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], baseline: str | None, resamples: Resamples
) -> list[OverBaseline]:
    """Each model that sees a profile against the baseline that sees none, over all users and by what is known.

    Not what knowing the user is worth: a model may be better for everybody. That is the gain of one model over itself.
    """
    if baseline is None or not any(view.name == "none" for view in views):
        return []
    asked = [
        ((label, view.name), (baseline, "none"))
        for label in labels
        for view in views
        if label != baseline and (view.is_profile or view.name == "none")
    ]
    found = paired(ratings, asked, resamples, parts=_parts(ratings))
    return [
        OverBaseline(rm=pair.one[0], view=pair.one[1], than=baseline, known=pair.part, **asdict(pair.test))
        for pair in found
    ]


def _parts(ratings: Ratings) -> dict[str, NDArray[np.bool_]]:
    """All items, then those of users of whom little, more and much is known."""
    parts = {ALL: np.ones(len(ratings.items), dtype=bool)}
    for grouping in groupings(ratings):
        if grouping.by == "known":
            shown = shown_groups(ratings, grouping)
            if len(shown.values) > 1:
                parts.update((name, shown.codes == code) for code, name in enumerate(shown.values))
    return parts
