"""Means over items that have a value, with intervals over users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream._guide._results import Figure
from palate.downstream._personal import Range, mean_totals
from palate.evaluate import Floats, Quantity, Resamples, intervals, ratio


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
