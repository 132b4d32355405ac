"""How much there is of each user and group, and the smallest gain that so much would probably show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from palate.audit._benchmark_results import Amounts, CellSize, Field, Power, Spread
from palate.audit._controls import Measured
from palate.evaluation import MOST_GROUPS, SMALLEST_GROUP, Ratings
from palate.records import Benchmark, Comparison, User
from palate.stats import DIFFER, Floats, effective_items, smallest_gain

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


def measure_power(ratings: Ratings, controls: Sequence[Measured]) -> Power:
    """The smallest gain of one model over another, with the items of one user as alike as they are for the controls."""
    sizes = np.bincount(ratings.clusters).astype(np.float64)
    measured = [intraclass_correlation(one, ratings.clusters) for one in _differences(controls, ratings)]
    alike = float(np.median(measured)) if measured else 0.0
    effective = effective_items(sizes, alike)
    return Power(
        smallest_gain=smallest_gain(effective, DIFFER),
        differ=DIFFER,
        correlation=alike,
        clusters=len(sizes),
        effective_items=effective,
    )


def _differences(controls: Sequence[Measured], ratings: Ratings) -> list[Floats]:
    """What each control gets more than the coin, item by item: real differences, with real users behind them."""
    coin = next(one.credits for one in controls if one.rm == "random")
    others = [one.credits for one in controls if one.rm != "random" and len(one.credits) == len(ratings.items)]
    return [other - coin for other in others if not np.isnan(other).any()]


def intraclass_correlation(values: Floats, clusters: np.ndarray) -> float:
    """How much of the variance lies between clusters, by analysis of variance; at least 0.

    >>> round(intraclass_correlation(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])), 2)
    1.0
    """
    sizes = np.bincount(clusters).astype(np.float64)
    items, groups = len(values), len(sizes)
    if groups < 2 or items == groups:
        return 0.0
    means = np.bincount(clusters, weights=values) / sizes
    between = float(np.sum(sizes * (means - values.mean()) ** 2)) / (groups - 1)
    within = float(np.sum((values - means[clusters]) ** 2)) / (items - groups)
    usual = (items - float(np.sum(sizes**2)) / items) / (groups - 1)
    total = between + (usual - 1) * within
    return max(0.0, (between - within) / total) if total > 0 else 0.0


def measure_fields(benchmark: Benchmark, least: int) -> list[Field]:
    """Users and items of every category, demographic value and value that users hold."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    items: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in benchmark.comparisons:
        for by, value in _groups(item, benchmark.users[item.user_id]):
            users[by][value].add(item.user_id)
            items[by][value] += 1
    asked = {item.user_id for item in benchmark.comparisons}
    return [_field(by, users[by], items[by], asked, least) for by in sorted(users)]


def _groups(item: Comparison, user: User) -> Iterator[tuple[str, str]]:
    if item.category is not None:
        yield "category", item.category
    for name, value in user.demographics.items():
        for one in [value] if isinstance(value, str) else dict.fromkeys(value):
            yield f"demographics.{name}", one
    for one in dict.fromkeys(user.values):
        yield "values", one


def _field(by: str, users: dict[str, set[str]], items: dict[str, int], asked: set[str], least: int) -> Field:
    """A thin value is named so that more of it can be collected, but not when that would point at a person."""
    named = [value for value, members in users.items() if len(members) >= min(least, SMALLEST_GROUP)]
    if len(users) > MOST_GROUPS:
        named = []
    cells = [CellSize(value=value, users=len(users[value]), items=items[value]) for value in named]
    return Field(
        by=by,
        cells=len(users),
        thin=sum(len(members) < least for members in users.values()),
        listed=sorted(cells, key=lambda cell: (-cell.users, -cell.items, cell.value)),
        without=len(asked - set().union(*users.values())),
    )
