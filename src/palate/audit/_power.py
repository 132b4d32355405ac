"""The smallest gain that a benchmark of so many users and items would probably show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from palate.audit._controls import Measured
from palate.audit._results import Power
from palate.evaluation import Ratings
from palate.stats import Floats

DIFFER = 0.3
"""Two models of which one is right and the other wrong on three items in ten: a profile that changes much."""
LEVEL = 0.05
WANTED = 0.8


def measure_power(ratings: Ratings, controls: Sequence[Measured]) -> Power:
    """A normal approximation of the paired difference of two models, clustered by user.

    On an item the difference is 1, 0 or -1, with a variance of about DIFFER when the gain is small. Items of one
    user are alike by an intraclass correlation, so a user with n items adds n (1 + (n - 1) correlation) times it.
    """
    sizes = np.bincount(ratings.clusters).astype(np.float64)
    measured = [intraclass_correlation(one, ratings.clusters) for one in _differences(controls, ratings)]
    alike = float(np.median(measured)) if measured else 0.0
    items = float(sizes.sum())
    effective = items**2 / float(np.sum(sizes * (1 + (sizes - 1) * alike)))
    reach = stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(WANTED)
    return Power(
        smallest_gain=min(1.0, float(reach * np.sqrt(DIFFER / effective))),
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
