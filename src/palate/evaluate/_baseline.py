"""Whether a model is better than one that knows nobody, for users of whom little or much is known.

Not what knowing the user is worth: a model may be better for everybody. That is the gain of one model over itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.evaluate._paired import ALL, paired
from palate.evaluate._ratings import Ratings
from palate.evaluate._results import OverBaseline
from palate.evaluate._slices import KNOWN, SMALLEST_GROUP, known_bucket
from palate.evaluate._statistics import Resamples
from palate.views import ViewSpec


def over_baseline(
    ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], baseline: str | None, resamples: Resamples
) -> list[OverBaseline]:
    """Each model that sees a profile against the baseline that sees none, over all users and by what is known."""
    if baseline is None or not any(view.name == "none" for view in views):
        return []
    asked = [
        ((label, view.name), (baseline, "none"))
        for label in labels
        for view in views
        if label != baseline and (view.is_profile or view.name == "none")
    ]
    return [
        OverBaseline(
            rm=one.one[0],
            view=one.one[1],
            than=baseline,
            known=one.part,
            n=one.n,
            users=one.users,
            difference=one.value,
            low=one.low,
            high=one.high,
            p=one.p,
            q=one.q,
            carried_by=one.carried_by,
        )
        for one in paired(ratings, asked, resamples, parts=_parts(ratings))
    ]


def _parts(ratings: Ratings) -> dict[str, NDArray[np.bool_]]:
    """All items, then those of users of whom little, more and much is known; small parts are left out."""
    values = np.array(["" if item.known is None else known_bucket(item.known) for item in ratings.items])
    parts = {ALL: np.ones(len(values), dtype=bool)}
    present = [name for name in KNOWN if ratings.count_users(values == name) >= SMALLEST_GROUP]
    if len(present) > 1:
        parts.update((name, values == name) for name in present)
    return parts
