"""From columns of items to means and differences with intervals over users: one call for a whole table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.stats._intervals import Floats, Quantity, Resamples, cluster_totals, intervals, paired_differences, ratio

Range = tuple[float, float]
"""The least and the largest value that is possible."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A mean with its interval."""

    value: float
    low: float | None = None
    high: float | None = None


class PairedTest(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of paired differences, with its interval and its test."""

    n: int
    users: int
    difference: float
    low: float | None
    high: float | None
    p: float
    """Two-sided test of a mean of zero; below .05 where the interval leaves zero out."""
    q: float
    """The same with the false discovery rate held over the whole table."""
    carried_by: int | None = None
    """Removing this many of the most influential users would bring zero into the interval; null where it is already."""


def mean_totals(values: Floats, clusters: NDArray[np.intp], n_clusters: int) -> Floats:
    """By cluster: the sum of the values that are there, and how many they are."""
    has = ~np.isnan(values)
    return cluster_totals(np.stack([np.where(has, values, 0.0), has.astype(float)], axis=1), clusters, n_clusters)


def paired_tests(
    columns: Sequence[tuple[Floats, Range]],
    clusters: NDArray[np.intp],
    users: NDArray[np.str_],
    resamples: Resamples,
) -> list[PairedTest | None]:
    """Differences, an item each and nan where it does not count, with the range of what is possible.

    The false discovery rate is held over all that are given, so give all that are printed. None where no item counts.
    """
    there = [index for index, (values, _) in enumerate(columns) if not np.isnan(values).all()]
    means = [
        Quantity(mean_totals(values, clusters, resamples.n_clusters), ratio, within)
        for values, within in (columns[index] for index in there)
    ]
    found: list[PairedTest | None] = [None] * len(columns)
    for index, difference in zip(there, paired_differences(means, resamples), strict=True):
        has = ~np.isnan(columns[index][0])
        found[index] = PairedTest(
            n=int(has.sum()),
            users=len(set(users[has].tolist())),
            **vars(difference),
        )
    return found


def figures(
    columns: Sequence[tuple[Floats, Range]], clusters: NDArray[np.intp], resamples: Resamples
) -> list[Figure | None]:
    """A mean for each column of items, with the values that are possible; none where no item has a value."""
    totals = [mean_totals(values, clusters, resamples.n_clusters) for values, _ in columns]
    there = [index for index, total in enumerate(totals) if total[:, 1].any()]
    estimates = intervals([Quantity(totals[index], ratio, columns[index][1]) for index in there], resamples)
    found: list[Figure | None] = [None] * len(columns)
    for index, estimate in zip(there, estimates, strict=True):
        value = float(ratio(totals[index].sum(axis=0)))
        limits = (estimate.low, estimate.high) if estimate else (None, None)
        found[index] = Figure(value=value, low=limits[0], high=limits[1])
    return found
