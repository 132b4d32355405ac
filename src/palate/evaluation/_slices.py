"""Accuracy by domain, difficulty, contrast, group and user, and the rule that keeps a group from being a few people.

Every output that shows something by group (the terminal, Markdown, the page, `summary.json` and the audit of a run)
takes its groups from `shown_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from sys import intern

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Slice, UserAccuracy
from palate.evaluation._run import RatedItem
from palate.stats import Resamples, intervals, ratio
from palate.views import ViewSpec

SMALLEST_GROUP = 5
"""A group of fewer users is not shown by itself: it says little, and may say it about one person."""
MOST_GROUPS = 40
"""A trait with more values than this is nearly an id, not a group."""
NOT_GIVEN = "(not given)"
OTHER = "(other)"

_BUCKETS = ((0, "0"), (10, "1 to 10"), (50, "11 to 50"))
_MOST_KNOWN = "over 50"

Mask = NDArray[np.bool_]


class Grouping(msgspec.Struct, frozen=True):
    """One field: the value of each item as a code."""

    by: str
    """`category`, `difficulty`, `contrast`, `known` (judgements that a trained model could learn from) or
    `demographics.FIELD`."""
    values: list[str]
    codes: NDArray[np.int32]
    """By item, the place of its value; -1 for an item that does not count."""
    of_users: bool
    """Whether every user belongs to one group only."""

    def of(self, code: int) -> Mask:
        """Which items have this value."""
        return np.asarray(self.codes == code)

    @property
    def is_nearly_id(self) -> bool:
        """Whether a field has too many values to name groups rather than people."""
        return len(self.values) > MOST_GROUPS


def groupings(ratings: Ratings) -> list[Grouping]:
    """Every field with at least two values. Items without a value are a group as well."""
    names = sorted({name for item in ratings.items for name in item.traits})
    readers: list[tuple[str, Callable[[RatedItem], str | None]]] = [
        ("category", lambda item: item.category),
        ("difficulty", lambda item: item.difficulty),
        ("contrast", lambda item: item.contrast),
        ("known", lambda item: None if item.known is None else known_bucket(item.known)),
        *((f"demographics.{name}", lambda item, name=name: item.traits.get(name)) for name in names),
    ]
    found = []
    for by, read in readers:
        values = [None if (value := read(item)) is None else intern(value) for item in ratings.items]
        if len(set(values) - {None}) > 1:
            found.append(_grouping(by, [NOT_GIVEN if value is None else value for value in values], ratings))
    return found


def shown_groups(
    ratings: Ratings, grouping: Grouping, least: int = SMALLEST_GROUP, where: Mask | None = None
) -> Grouping:
    """The groups that may be shown, of all items or of some: each has at least `least` users.

    Smaller groups are put together as `OTHER`. If these are still fewer than `least` users, the smallest of the large
    groups joins them, and gives its name: `south and others`. So the groups make up the whole, and subtracting those
    that are shown from the whole gives nothing but another one that is shown. A field that has no two such groups
    comes back with one group: there is nothing to show.
    """
    inside = grouping.codes >= 0 if where is None else where & (grouping.codes >= 0)
    members = {
        int(code): np.unique(ratings.users[inside & (grouping.codes == code)])
        for code in np.unique(grouping.codes[inside])
    }

    def together(codes: Sequence[int]) -> int:
        return len(np.unique(np.concatenate([members[code] for code in codes])))

    by_size = sorted(members, key=lambda code: len(members[code]))
    joined = [code for code in by_size if len(members[code]) < least]
    company: list[str] = []
    while joined and len(joined) < len(by_size) and together(joined) < least:
        company.append(grouping.values[by_size[len(joined)]])
        joined.append(by_size[len(joined)])
    other = f"{', '.join(company)} and others" if company else OTHER
    names = [other if code in joined else value for code, value in enumerate(grouping.values)]
    values = [names[code] if counts else None for code, counts in zip(grouping.codes, inside, strict=True)]
    return _grouping(grouping.by, values, ratings)


def _grouping(by: str, values: list[str] | list[str | None], ratings: Ratings) -> Grouping:
    names = sorted({value for value in values if value is not None}, key=lambda name: (name.startswith("("), name))
    place = {name: code for code, name in enumerate(names)}
    codes = np.fromiter((-1 if value is None else place[value] for value in values), np.int32, len(values))
    users = ratings.users[codes >= 0]
    of_users = len(np.unique(users * len(names) + codes[codes >= 0])) == len(np.unique(users))
    return Grouping(by, names, codes, of_users)


def known_bucket(known: int) -> str:
    """How much is known of a user, in words.

    >>> [known_bucket(number) for number in (0, 3, 50, 51)]
    ['0', '1 to 10', '11 to 50', 'over 50']
    """
    return next((name for most, name in _BUCKETS if known <= most), _MOST_KNOWN)


def slices(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Slice]:
    """Every group that may be shown, for each model and view."""
    large = [shown_groups(ratings, grouping) for grouping in groupings(ratings) if not grouping.is_nearly_id]
    fields = [(field, shown_groups(ratings, field)) for field in large]
    asked: list[tuple[str, str, Grouping, int]] = []
    for rm, view in ((label, view.name) for label in labels for view in views):
        scored = ~np.isnan(ratings.credits[rm, view])
        for field, whole in fields:
            # a group that is large enough in the whole run may have too few users with a score
            shown = whole if scored.all() else shown_groups(ratings, field, where=scored)
            if len(shown.values) > 1:
                asked += [(rm, view, shown, code) for code in range(len(shown.values))]
    return measure_slices(ratings, asked, resamples)


def measure_slices(
    ratings: Ratings, asked: Sequence[tuple[str, str, Grouping, int]], resamples: Resamples
) -> list[Slice]:
    """Accuracies with their intervals; asked for by model, view, field, and the place of the value."""
    quantities = [ratings.mean(ratings.credits[rm, view], partial(field.of, code)) for rm, view, field, code in asked]
    estimates = intervals(quantities, resamples)
    return [
        Slice(
            rm=rm,
            view=view,
            by=field.by,
            value=field.values[code],
            n=int(field.of(code).sum()),
            users=ratings.count_users(field.of(code)),
            accuracy=float(ratio(quantity.totals.sum(axis=0))),
            low=estimate.low if estimate else None,
            high=estimate.high if estimate else None,
        )
        for (rm, view, field, code), quantity, estimate in zip(asked, quantities, estimates, strict=True)
    ]


def user_accuracies(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec]) -> list[UserAccuracy]:
    names = ratings.user_names
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
