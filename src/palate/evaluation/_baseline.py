"""Whether a model is better than one that knows nobody, for users of whom little or much is known.

Not what knowing the user is worth: a model may be better for everybody. That is the gain of one model over itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.evaluation._grouping import groupings, shown_groups
from palate.evaluation._paired import ALL, paired
from palate.evaluation._ratings import Ratings
from palate.evaluation._results import OverBaseline
from palate.stats._intervals import Resamples
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
    """All items, then those of users of whom little, more and much is known."""
    parts = {ALL: np.ones(len(ratings.items), dtype=bool)}
    for grouping in groupings(ratings):
        if grouping.by == "known":
            shown = shown_groups(ratings, grouping)
            if len(shown.values) > 1:
                parts.update((name, shown.codes == code) for code, name in enumerate(shown.values))
    return parts
