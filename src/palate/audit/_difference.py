"""Do groups differ at all? A permutation test in which whole users, with those they share twins with, change group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from palate.evaluation import Grouping, Mask, Ratings
from palate.stats import Floats

SHUFFLES = 10_000
_CHUNK = 2**21
"""Codes held at once."""


def group_test(ratings: Ratings, credits: Floats, grouping: Grouping, where: Mask, seed: int) -> float:
    """P-value that accuracy does not differ between the groups of these items.

    The statistic is the variance between groups. Where every user is in one group, the groups of whole clusters
    of users are exchanged. Where users have items in several groups, nobody can change group, and whole clusters
    change sign instead: each is as likely to be better than usual in a group as worse.
    """
    residuals = np.where(where, credits - credits[where].mean(), 0.0)
    shuffled = _exchanged if grouping.of_users else _flipped
    observed, drawn = shuffled(ratings, residuals, grouping, where, np.random.default_rng(seed))
    return float((np.count_nonzero(drawn >= observed * (1 - 1e-9)) + 1) / (len(drawn) + 1))


def _variance_between(sums: Floats, counts: Floats) -> Floats:
    """Over the last axis, which is the groups: sums of residuals and numbers of items."""
    squares = np.divide(sums**2, counts, out=np.zeros_like(sums), where=counts > 0)
    total = np.broadcast_to(counts, sums.shape).sum(axis=-1)
    return np.asarray(squares.sum(axis=-1) - sums.sum(axis=-1) ** 2 / total)


def _flipped(
    ratings: Ratings, residuals: Floats, grouping: Grouping, where: Mask, random: np.random.Generator
) -> tuple[float, Floats]:
    groups = np.unique(grouping.codes[where])
    columns = [np.where(grouping.codes == group, residuals, 0.0) for group in groups]
    by_cluster = ratings.totals(*columns)
    counts = np.array([np.count_nonzero(where & (grouping.codes == group)) for group in groups], dtype=np.float64)

    def draw(rows: int) -> Floats:
        signs = 1.0 - 2.0 * random.integers(2, size=(rows, len(by_cluster)), dtype=np.int8)
        return _variance_between(signs @ by_cluster, counts)

    return float(_variance_between(by_cluster.sum(axis=0), counts)), _in_chunks(draw, len(by_cluster))


def _exchanged(
    ratings: Ratings, residuals: Floats, grouping: Grouping, where: Mask, random: np.random.Generator
) -> tuple[float, Floats]:
    users, first, user_of = np.unique(ratings.users[where], return_index=True, return_inverse=True)
    codes, clusters = grouping.codes[where][first], ratings.clusters[where][first]
    sums = np.bincount(user_of, weights=residuals[where], minlength=len(users))
    counts = np.bincount(user_of, minlength=len(users)).astype(np.float64)
    blocks = _blocks(clusters)
    groups = np.unique(codes)

    def statistic(placed: NDArray[np.intp]) -> Floats:
        inside = [(placed == group).astype(np.float64) for group in groups]
        totals = [np.stack([one @ column for one in inside], axis=-1) for column in (sums, counts)]
        return _variance_between(*totals)

    def draw(rows: int) -> Floats:
        placed = np.empty((rows, len(users)), dtype=np.intp)
        for block in blocks:
            order = np.argsort(random.random((rows, len(block))), axis=1)
            drawn = codes[block][order]
            # users of one couple are in no order, so their groups are not either
            placed[:, block.ravel()] = random.permuted(drawn, axis=2).reshape(rows, -1)
        return statistic(placed)

    return float(statistic(codes[None, :])[0]), _in_chunks(draw, len(users))


def _blocks(clusters: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Users as rows of clusters, a block for each size of cluster: only clusters of one size can be exchanged."""
    order = np.argsort(clusters, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1)
    sizes = {len(one) for one in members}
    return [np.stack([one for one in members if len(one) == size]) for size in sorted(sizes)]


def _in_chunks(draw: Callable[[int], Floats], width: int) -> Floats:
    rows = max(1, _CHUNK // max(1, width))
    return np.concatenate([draw(min(rows, SHUFFLES - start)) for start in range(0, SHUFFLES, rows)])
