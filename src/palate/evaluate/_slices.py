"""Accuracy by domain, difficulty, group of users, and user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.evaluate._ratings import Ratings
from palate.evaluate._results import Slice, UserAccuracy
from palate.evaluate._run import RatedItem
from palate.evaluate._statistics import Resamples, intervals, ratio
from palate.views import ViewSpec

_BUCKETS = ((0, "0"), (10, "1 to 10"), (50, "11 to 50"))
MOST_KNOWN = "over 50"
KNOWN = (*(name for _, name in _BUCKETS), MOST_KNOWN)

SMALLEST_GROUP = 5
"""A slice of fewer users is not shown: it says little, and may say it about one person."""
MOST_GROUPS = 40
"""A trait with more values than this is nearly an id, not a group."""


def slices(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Slice]:
    groups = _groups(ratings)
    asked = [
        (label, view.name, by, value, members)
        for label in labels
        for view in views
        for (by, value), members in groups.items()
    ]
    quantities = [ratings.mean(ratings.credits[rm, view], members) for rm, view, _, _, members in asked]
    estimates = intervals(quantities, resamples)
    found = []
    for (rm, view, by, value, members), quantity, estimate in zip(asked, quantities, estimates, strict=True):
        scored = ~np.isnan(ratings.credits[rm, view]) & members
        if not scored.any():
            continue
        found.append(
            Slice(
                rm=rm,
                view=view,
                by=by,
                value=value,
                n=int(scored.sum()),
                users=ratings.count_users(scored),
                accuracy=float(ratio(quantity.totals.sum(axis=0))),
                low=estimate.low if estimate else None,
                high=estimate.high if estimate else None,
            )
        )
    return found


def _groups(ratings: Ratings) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """Which items belong to which domain, difficulty or group of users; small groups are left out."""
    names = sorted({name for item in ratings.items for name in item.traits})
    found: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for by in ("category", "difficulty", "known", *(f"demographics.{name}" for name in names)):
        values = [_value(item, by) for item in ratings.items]
        kinds = Counter(value for value in values if value is not None)
        if not 2 <= len(kinds) <= MOST_GROUPS:
            continue
        for kind in sorted(kinds):
            members = np.array([value == kind for value in values])
            if ratings.count_users(members) >= SMALLEST_GROUP:
                found[by, kind] = members
    return found


def known_bucket(known: int) -> str:
    """How much is known of a user, in words.

    >>> [known_bucket(number) for number in (0, 3, 50, 51)]
    ['0', '1 to 10', '11 to 50', 'over 50']
    """
    return next((name for most, name in _BUCKETS if known <= most), MOST_KNOWN)


def _value(item: RatedItem, by: str) -> str | None:
    if by == "category":
        return item.category
    if by == "difficulty":
        return item.difficulty
    if by == "known":
        return None if item.known is None else known_bucket(item.known)
    return item.traits.get(by.removeprefix("demographics."))


def user_accuracies(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec]) -> list[UserAccuracy]:
    names = np.unique([item.user_id for item in ratings.items]).tolist()
    found = []
    for label in labels:
        for view in views:
            credits = ratings.credits[label, view.name]
            scored = ~np.isnan(credits)
            counts = np.bincount(ratings.users[scored], minlength=len(names))
            sums = np.bincount(ratings.users[scored], weights=credits[scored], minlength=len(names))
            found += [
                UserAccuracy(rm=label, view=view.name, user_id=name, n=int(count), accuracy=float(total / count))
                for name, count, total in zip(names, counts, sums, strict=True)
                if count
            ]
    return found
