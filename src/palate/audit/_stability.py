"""Would another half of the users, or of the items, put the models into the same order?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import ceil

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from palate.evaluation import Ratings
from palate.stats import Floats, item_texts

SPLITS = 500
DIFFERENCES = (0.01, 0.02, 0.05, 0.1)
SURE = 0.95


class SplitHalf(msgspec.Struct, frozen=True, kw_only=True):
    """Models put into order by one half and by the other, many times."""

    over: str
    """What is split: `users`, couples of twins together, or `items`, the same texts together."""
    halves: int
    """Users or items in a half."""
    kept: float
    """How often two models have the same order in both halves; a tie in either counts half."""
    best_kept: float
    """How often the same model is best in both; where several tie for the best of a half, one of them by lot."""


class UsersNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """How many users put two models into the right order 95% of the time."""

    difference: float
    """In accuracy."""
    users: int


class Stability(msgspec.Struct, frozen=True, kw_only=True):
    """How far the order of models is the benchmark's, and how far it is that of these users and items."""

    models: int
    """Models and views that were put into order."""
    splits: list[SplitHalf]
    needed: list[UsersNeeded]


def measure_stability(ratings: Ratings, keys: Sequence[tuple[str, str]], seed: int) -> Stability | None:
    """Split users and items in halves; None with fewer than two models that rated everything, or too few users."""
    credits = [ratings.credits[key] for key in keys if not np.isnan(ratings.credits[key]).any()]
    if len(credits) < 2 or ratings.n_clusters < 4:
        return None
    table = np.stack(credits, axis=1)
    texts: dict[object, int] = {}
    items = np.array([texts.setdefault(item_texts(item), len(texts)) for item in ratings.items])
    splits = [_split("users", table, ratings.clusters, seed)]
    if len(texts) >= 4:
        splits.append(_split("items", table, items, seed))
    return Stability(models=len(credits), splits=splits, needed=_needed(table, ratings.clusters))


def _split(over: str, table: Floats, codes: NDArray[np.intp], seed: int) -> SplitHalf:
    size = int(codes.max()) + 1
    totals = np.stack([np.bincount(codes, weights=column, minlength=size) for column in table.T], axis=1)
    counts = np.bincount(codes, minlength=size).astype(np.float64)
    draw = np.random.default_rng([seed, 3])
    kept = best = 0.0
    pairs = list(combinations(range(table.shape[1]), 2))
    left, right = np.array(pairs).T
    for _ in range(SPLITS):
        half = draw.permutation(size) < size // 2
        one, other = (np.round(totals[own].sum(axis=0) / counts[own].sum(), 9) for own in (half, ~half))
        agree = np.sign(one[left] - one[right]) * np.sign(other[left] - other[right])
        kept += float(np.mean((agree + 1) / 2))
        first, second = one == one.max(), other == other.max()
        best += float(np.sum(first & second) / (first.sum() * second.sum()))
    return SplitHalf(over=over, halves=size // 2, kept=kept / SPLITS, best_kept=best / SPLITS)


def _needed(table: Floats, clusters: NDArray[np.intp]) -> list[UsersNeeded]:
    """From the variance of paired differences between users, the median over pairs of models."""
    size = int(clusters.max()) + 1
    counts = np.bincount(clusters, minlength=size).astype(np.float64)
    variances = []
    for one, other in combinations(range(table.shape[1]), 2):
        difference = table[:, one] - table[:, other]
        sums = np.bincount(clusters, weights=difference, minlength=size)
        variances.append(float(np.sum((sums - difference.mean() * counts) ** 2)) / counts.sum() ** 2 * size)
    spread = float(np.median(variances))
    reach = float(norm.ppf(SURE))
    return [
        UsersNeeded(difference=difference, users=max(1, ceil(reach**2 * spread / difference**2)))
        for difference in DIFFERENCES
    ]
