"""Accuracy by group, the gap between the best and the worst served, and whether groups differ at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.audit._run_results import Gap, SliceGain
from palate.evaluation import Grouping, Mask, Ratings, Slice, measure_slices, shown_groups
from palate.runs import Progress
from palate.stats import GAIN, SHARE, Floats, Quantity, Resamples, false_discovery, intervals, paired_differences, ratio

Key = tuple[str, str]
"""A model and a view."""
SHUFFLES = 10_000
_CHUNK = 2**21
"""Codes held at once."""


class _Row(msgspec.Struct, frozen=True):
    """One field of one model under one view: the groups that may be shown, of the items that count."""

    key: Key
    grouping: Grouping
    values: Floats

    @property
    def codes(self) -> range:
        return range(len(self.grouping.values))

    def mean(self, ratings: Ratings, code: int, within: tuple[float, float] = SHARE) -> Quantity:
        return ratings.mean(self.values, self.grouping.codes == code, within=within)

    def columns(self, ratings: Ratings, code: int) -> tuple[Floats, Floats]:
        return ratings.scored_columns(self.values, self.grouping.codes == code)

    def count_users(self, ratings: Ratings, code: int) -> int:
        return ratings.count_users(self.grouping.codes == code)


def _rows(
    ratings: Ratings, fields: Sequence[Grouping], columns: Sequence[tuple[Key, Floats]], least: int
) -> list[_Row]:
    """Groups that have enough users in the whole run may still have too few with a score."""
    shown = [
        _Row(key, shown_groups(ratings, field, least, ~np.isnan(values)), values)
        for field in fields
        for key, values in columns
    ]
    return [row for row in shown if len(row.codes) > 1]


def measure_groups(
    ratings: Ratings, keys: Sequence[Key], fields: Sequence[Grouping], least: int, seed: int, progress: Progress | None
) -> tuple[list[Slice], list[Gap]]:
    """How every group is served, and in which fields that differs."""
    rows = _rows(ratings, fields, [(key, ratings.credits[key]) for key in keys], least)
    resamples = Resamples(ratings.n_clusters, seed=seed)
    asked = [(*row.key, row.grouping, code) for row in rows for code in row.codes]
    return measure_slices(ratings, asked, resamples), _gaps(ratings, rows, resamples, progress)


def _gaps(ratings: Ratings, rows: Sequence[_Row], resamples: Resamples, progress: Progress | None) -> list[Gap]:
    ends: list[tuple[int, int]] = []
    quantities: list[Quantity] = []
    p_values: list[float] = []
    for done, row in enumerate(rows):
        if progress:
            progress(f"shuffling groups of {row.grouping.by}", done, len(rows))
        accuracies = {code: float(ratio(row.mean(ratings, code).totals.sum(axis=0))) for code in row.codes}
        worst, *_, best = sorted(row.codes, key=lambda code: accuracies[code])
        both = (*row.columns(ratings, best), *row.columns(ratings, worst))
        quantities.append(ratings.quantity(*both, statistic=_difference_of_ratios, within=GAIN))
        ends.append((best, worst))
        p_values.append(group_test(ratings, row.values, row.grouping, row.grouping.codes >= 0, resamples.seed))
    estimates = intervals(quantities, resamples)
    return [
        Gap(
            rm=row.key[0],
            view=row.key[1],
            by=row.grouping.by,
            best=row.grouping.values[best],
            worst=row.grouping.values[worst],
            gap=float(_difference_of_ratios(quantity.totals.sum(axis=0))),
            low=estimate.low if estimate else None,
            high=estimate.high if estimate else None,
            p=p,
            q=q,
        )
        for row, (best, worst), quantity, estimate, p, q in zip(
            rows, ends, quantities, estimates, p_values, false_discovery(p_values), strict=True
        )
    ]


def _difference_of_ratios(totals: Floats) -> Floats:
    return np.asarray(totals[..., 0] / totals[..., 1] - totals[..., 2] / totals[..., 3])


def measure_gains(
    ratings: Ratings, pairs: Sequence[tuple[Key, Key]], fields: Sequence[Grouping], least: int, seed: int
) -> list[SliceGain]:
    """What the profile does for each group that may be shown."""
    columns = [(key, profile_change(ratings, key, none)) for key, none in pairs]
    asked = [(row, code) for row in _rows(ratings, fields, columns, least) for code in row.codes]
    changes = [row.mean(ratings, code, GAIN) for row, code in asked]
    differences = paired_differences(changes, Resamples(ratings.n_clusters, seed=seed))
    return [
        SliceGain(
            rm=row.key[0],
            view=row.key[1],
            by=row.grouping.by,
            value=row.grouping.values[code],
            n=int(change.totals[:, 1].sum()),
            users=row.count_users(ratings, code),
            **vars(difference),
        )
        for (row, code), change, difference in zip(asked, changes, differences, strict=True)
    ]


def profile_change(ratings: Ratings, key: Key, none: Key) -> Floats:
    """Credit with the profile minus credit without, item by item; nan where either is missing or nothing was shown."""
    return np.where(ratings.empty(key[1]), np.nan, ratings.credits[key] - ratings.credits[none])


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
    codes, clusters = grouping.codes[where][first].astype(np.intp), ratings.clusters[where][first]
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
