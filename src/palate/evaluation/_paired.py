"""What differs: one view from another, one model from another, on the items that both scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Difference, Gain, OverBaseline
from palate.report._numbers import CLEAR, count
from palate.rewards import CONTROLS
from palate.stats._intervals import GAIN, Floats, Resamples, paired_differences
from palate.views import ViewSpec

Key = tuple[str, str]
"""A model and a view."""

_ENOUGH_USERS = 20
"""Where users weigh as unequally as if there were fewer, those who were not seen may matter."""
_FEW = 3
_FEW_OF_MANY = 0.02
"""A gain that would not be clear without so few users is said to be carried by few."""


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy of one minus accuracy of the other; q holds the false discovery rate over the whole list."""

    one: Key
    other: Key
    n: int
    users: int
    value: float
    low: float | None
    high: float | None
    p: float
    q: float
    carried_by: int | None
    part: str


ALL = "any"
"""The part of the items that is all of them."""


def paired(
    ratings: Ratings,
    asked: Sequence[tuple[Key, Key]],
    resamples: Resamples,
    *,
    where_shown: bool = False,
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
) -> list[Paired]:
    """Every difference asked for, on every part of the items, less those with no item in common.

    With `where_shown`, items whose first view had nothing to show are left out. All of it is one table, over which
    the false discovery rate is held.
    """
    kept: list[tuple[str, Key, Key, NDArray[np.bool_]]] = []
    for part, members in (parts or {ALL: np.ones(len(ratings.items), dtype=bool)}).items():
        for one, other in asked:
            both = members & _both_scored(ratings, one, other)
            if where_shown:
                both &= ~ratings.empty(one[1])
            if both.any():
                kept.append((part, one, other, both))
    quantities = [
        ratings.mean(ratings.credits[one] - ratings.credits[other], both, within=GAIN) for _, one, other, both in kept
    ]
    return [
        Paired(
            one=one,
            other=other,
            n=int(both.sum()),
            users=ratings.count_users(both),
            value=found.value,
            low=found.low,
            high=found.high,
            p=found.p,
            q=found.q,
            carried_by=found.carried_by,
            part=part,
        )
        for (part, one, other, both), found in zip(kept, paired_differences(quantities, resamples), strict=True)
    ]


def _both_scored(ratings: Ratings, one: Key, other: Key) -> np.ndarray:
    both: Floats = ratings.credits[one] + ratings.credits[other]
    return ~np.isnan(both)


def gains(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Gain]:
    """Each view over `none`, and each profile over the same kind of profile of somebody else."""
    asked: list[tuple[Key, Key]] = []
    for label in labels:
        for view in views:
            over = [other.name for other in views if other.name == "none" != view.name]
            if view.whose == "own":
                over += [other.name for other in views if other.whose != "own" and other.of == view.name]
            asked += [((label, view.name), (label, name)) for name in over]
    return [
        Gain(
            rm=found.one[0],
            view=found.one[1],
            over=found.other[1],
            n=found.n,
            users=found.users,
            gain=found.value,
            low=found.low,
            high=found.high,
            p=found.p,
            q=found.q,
            carried_by=found.carried_by,
        )
        for found in paired(ratings, asked, resamples, where_shown=True)
    ]


def differences(
    ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples
) -> list[Difference]:
    """Every two models under the same view, less two controls, which no report shows against each other."""
    pairs = [pair for pair in combinations(labels, 2) if not all(label.split(":")[0] in CONTROLS for label in pair)]
    asked = [((one, view.name), (other, view.name)) for view in views for one, other in pairs]
    return [as_difference(found) for found in paired(ratings, asked, resamples)]


def as_difference(found: Paired) -> Difference:
    """The same, said of two models under one view."""
    return Difference(
        view=found.one[1],
        rm=found.one[0],
        than=found.other[0],
        n=found.n,
        users=found.users,
        difference=found.value,
        low=found.low,
        high=found.high,
        p=found.p,
        q=found.q,
        carried_by=found.carried_by,
    )


def few_carry(carried_by: int | None, users: int) -> bool:
    """Whether a clear difference would not be clear without a handful of users.

    >>> few_carry(2, users=60), few_carry(12, users=60), few_carry(12, users=1_000)
    (True, False, True)
    """
    return carried_by is not None and carried_by <= max(_FEW, _FEW_OF_MANY * users)


def about_few(ratings: Ratings, found: Sequence[Gain], over: Sequence[OverBaseline]) -> list[str]:
    """Warnings where few users hold the items, few items are shared by all, or few users carry a gain."""
    warnings = []
    sizes = np.bincount(ratings.clusters).astype(float)
    alike = sizes.sum() ** 2 / np.sum(sizes**2)
    if alike < _ENOUGH_USERS <= len(sizes):
        warnings.append(
            f"A few users hold most of the items: these {len(sizes)} weigh like {alike:.0f}. Intervals from so few can "
            "mislead, since an effect that few people have may not have been seen at all."
        )
    if ratings.too_few_units:
        warnings.append(
            f"All users judge the same {count(ratings.too_few_units, 'item')}: the intervals are about new users, and "
            "say nothing about new items."
        )
    clear: list[tuple[str, Gain | OverBaseline]] = [
        *((f"{one.rm}, {one.view} over {one.over}", one) for one in found if one.q < CLEAR),
        *((f"{one.rm}, {one.view} over {one.than}", one) for one in over if one.q < CLEAR and one.known == ALL),
    ]
    return warnings + [
        f"{what}: few users carry this. Without {one.carried_by} of the {one.users} it would not be clear."
        for what, one in clear
        if few_carry(one.carried_by, one.users)
    ]
