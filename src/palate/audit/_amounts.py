"""How much there is of each user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from palate.audit._results import Amounts, Spread
from palate.records import Benchmark

ENOUGH = 25
"""Comparisons at which the 95% interval of a user's own accuracy is about 20 points wide on either side."""


def measure_amounts(benchmark: Benchmark) -> Amounts:
    """Comparisons, posts and judgements a user, for the users who have comparisons."""
    items = Counter(item.user_id for item in benchmark.comparisons)
    users = [benchmark.users[id] for id in items]
    return Amounts(
        items=spread(items.values()),
        posts=spread(len(user.posts) for user in users),
        judgements=spread(len(user.judgements) for user in users),
        without_history=sum(not (user.posts or user.judgements) for user in users),
        enough=ENOUGH,
        users_with_enough=sum(count >= ENOUGH for count in items.values()),
    )


def spread(amounts: Iterable[int]) -> Spread:
    """Fewest, quartiles and most.

    >>> spread([1, 2, 3, 4, 100]).median
    3.0
    """
    fewest, lower, median, upper, most = (float(one) for one in np.quantile(list(amounts), [0, 0.25, 0.5, 0.75, 1]))
    return Spread(fewest=fewest, lower=lower, median=median, upper=upper, most=most)
