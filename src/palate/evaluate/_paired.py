"""What differs: one view from another, one model from another, on the items that both scored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluate._ratings import Ratings
from palate.evaluate._results import Difference, Gain
from palate.evaluate._statistics import (
    GAIN,
    Floats,
    Quantity,
    Resamples,
    false_discovery,
    intervals,
    paired_test,
    ratio,
)
from palate.views import ViewSpec

Key = tuple[str, str]
"""A model and a view."""


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


def paired(
    ratings: Ratings,
    asked: Sequence[tuple[Key, Key]],
    resamples: Resamples,
    *,
    where_shown: bool = False,
    where: NDArray[np.bool_] | None = None,
) -> list[Paired]:
    """Every difference asked for, less those with no item in common.

    With `where_shown`, items whose first view had nothing to show are left out; `where` keeps some items only.
    """
    scored = {names: _both_scored(ratings, *names) for names in asked}
    if where is not None:
        scored = {names: both & where for names, both in scored.items()}
    if where_shown:
        scored = {names: both & ~ratings.empty(names[0][1]) for names, both in scored.items()}
    asked = [names for names in asked if scored[names].any()]
    totals = []
    for one, other in asked:
        both = scored[one, other]
        difference = np.where(both, ratings.credits[one] - ratings.credits[other], 0.0)
        totals.append(ratings.totals(difference, both.astype(float)))
    estimates = intervals([Quantity(total, ratio, GAIN) for total in totals], resamples)
    p_values = [paired_test(total[:, 0], resamples.seed) for total in totals]
    return [
        Paired(
            one=one,
            other=other,
            n=int(scored[one, other].sum()),
            users=ratings.count_users(scored[one, other]),
            value=float(ratio(total.sum(axis=0))),
            low=estimate.low if estimate else None,
            high=estimate.high if estimate else None,
            p=p,
            q=q,
        )
        for (one, other), total, estimate, p, q in zip(
            asked, totals, estimates, p_values, q_values(totals, p_values), strict=True
        )
    ]


def q_values(totals: Sequence[Floats], p_values: Sequence[float]) -> list[float]:
    """The false discovery rate over the differences that could be any: one that is 0 by design is no test."""
    tested = [index for index, total in enumerate(totals) if total[:, 0].any()]
    q_values = [1.0] * len(totals)
    for index, q in zip(tested, false_discovery([p_values[index] for index in tested]), strict=True):
        q_values[index] = q
    return q_values


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
        )
        for found in paired(ratings, asked, resamples, where_shown=True)
    ]


def differences(
    ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples
) -> list[Difference]:
    """Every two models under the same view."""
    asked = [((one, view.name), (other, view.name)) for view in views for one, other in combinations(labels, 2)]
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
    )
