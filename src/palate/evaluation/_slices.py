"""Accuracy by domain, difficulty, group of users, and user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.evaluation._grouping import groupings, shown_groups
from palate.evaluation._ratings import Ratings
from palate.evaluation._results import Slice, UserAccuracy
from palate.stats._intervals import Resamples, intervals, ratio
from palate.views import ViewSpec


def slices(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Slice]:
    """Every group that may be shown, for each model and view."""
    fields = [shown_groups(ratings, grouping) for grouping in groupings(ratings) if not grouping.is_nearly_id]
    asked = []
    for rm, view in ((label, view.name) for label in labels for view in views):
        credits = ratings.credits[rm, view]
        for field in fields:
            # a group that is large enough in the whole run may have too few users with a score
            shown = shown_groups(ratings, field, where=~np.isnan(credits))
            if len(shown.values) > 1:
                asked += [(rm, view, shown.by, name, shown.codes == code) for code, name in enumerate(shown.values)]
    quantities = [ratings.mean(ratings.credits[rm, view], members) for rm, view, _, _, members in asked]
    estimates = intervals(quantities, resamples)
    return [
        Slice(
            rm=rm,
            view=view,
            by=by,
            value=value,
            n=int(members.sum()),
            users=ratings.count_users(members),
            accuracy=float(ratio(quantity.totals.sum(axis=0))),
            low=estimate.low if estimate else None,
            high=estimate.high if estimate else None,
        )
        for (rm, view, by, value, members), quantity, estimate in zip(asked, quantities, estimates, strict=True)
    ]


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
