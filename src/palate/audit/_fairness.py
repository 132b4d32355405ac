"""Accuracy by group, and the gap between the best and the worst served."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from palate.audit._difference import group_test
from palate.audit._run_results import Cell, CellGain, Gap
from palate.evaluation import Grouping, Ratings, shown_groups
from palate.runs import Progress
from palate.stats import GAIN, SHARE, Floats, Quantity, Resamples, false_discovery, intervals, paired_differences, ratio

Key = tuple[str, str]
"""A model and a view."""


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
) -> tuple[list[Cell], list[Gap]]:
    """How every group is served, and in which fields that differs."""
    rows = _rows(ratings, fields, [(key, ratings.credits[key]) for key in keys], least)
    resamples = Resamples(ratings.n_clusters, seed=seed)
    return _cells(ratings, rows, resamples), _gaps(ratings, rows, resamples, progress)


def _cells(ratings: Ratings, rows: Sequence[_Row], resamples: Resamples) -> list[Cell]:
    asked = [(row, code) for row in rows for code in row.codes]
    means = [row.mean(ratings, code) for row, code in asked]
    return [
        Cell(
            rm=row.key[0],
            view=row.key[1],
            by=row.grouping.by,
            value=row.grouping.values[code],
            n=int(mean.totals[:, 1].sum()),
            users=row.count_users(ratings, code),
            accuracy=float(ratio(mean.totals.sum(axis=0))),
            low=estimate.low if estimate else None,
            high=estimate.high if estimate else None,
        )
        for (row, code), mean, estimate in zip(asked, means, intervals(means, resamples), strict=True)
    ]


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
) -> list[CellGain]:
    """What the profile does for each group that may be shown."""
    columns = [(key, profile_change(ratings, key, none)) for key, none in pairs]
    found = [(row, code) for row in _rows(ratings, fields, columns, least) for code in row.codes]
    changes = [row.mean(ratings, code, GAIN) for row, code in found]
    tested = paired_differences(changes, Resamples(ratings.n_clusters, seed=seed))
    return [
        CellGain(
            rm=row.key[0],
            view=row.key[1],
            by=row.grouping.by,
            value=row.grouping.values[code],
            n=int(change.totals[:, 1].sum()),
            users=row.count_users(ratings, code),
            gain=difference.value,
            low=difference.low,
            high=difference.high,
            p=difference.p,
            q=difference.q,
        )
        for (row, code), change, difference in zip(found, changes, tested, strict=True)
    ]


def profile_change(ratings: Ratings, key: Key, none: Key) -> Floats:
    """Credit with the profile minus credit without, item by item; nan where either is missing or nothing was shown."""
    return np.where(ratings.empty(key[1]), np.nan, ratings.credits[key] - ratings.credits[none])
