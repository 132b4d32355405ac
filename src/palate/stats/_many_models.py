"""Tests over many models at once: every two of them, and part of the items against the rest.

`paired_differences` draws resamples for each difference. A board of a thousand models has half a million of them, so
here the variance over users comes from one product of matrices, and the test is Student's. It is the same variance that
`paired_differences` takes for its own Student limit: of users, and of items where users judge the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import coo_array

from palate.stats._clusters import Units
from palate.stats._intervals import Floats

Codes = NDArray[np.intp]


class AllPairs(NamedTuple):
    """Every model (row) against every other (column), on the items that both scored."""

    difference: Floats
    p: Floats
    """Two-sided; 1 where two models never differ or share fewer than two independent users."""


def all_pairs(values: Floats, clusters: Codes, units: Units | None = None) -> AllPairs:
    """Differences between the means of all rows of `values` (models, items; nan is unscored), tested over users.

    >>> found = all_pairs(np.array([[1.0, 1, 1, 0], [0, 0, 1, 0]]), np.array([0, 1, 2, 3]))
    >>> float(found.difference[0, 1]), round(float(found.p[0, 1]), 3)
    (0.5, 0.182)
    """
    models = len(values)
    difference, p = np.zeros((models, models)), np.ones((models, models))
    complete = np.flatnonzero(~np.isnan(values).any(axis=1))
    if len(complete) > 1:
        where = np.ix_(complete, complete)
        difference[where], p[where] = _complete_pairs(values[complete], clusters, units)
    for row in np.flatnonzero(np.isnan(values).any(axis=1)):
        difference[row], p[row] = _against_all(values[row], values, clusters, units)
        difference[:, row], p[:, row] = -difference[row], p[row]
    return AllPairs(difference, p)


def _complete_pairs(values: Floats, clusters: Codes, units: Units | None) -> tuple[Floats, Floats]:
    """Where everything is scored, all variances follow from the products of what models miss by, cluster by cluster."""
    items = values.shape[1]
    means = values.mean(axis=1)
    residuals = values - means[:, None]

    def variances(codes: Codes) -> Floats:
        sums = _sums(residuals, codes)
        products = sums @ sums.T
        own = np.diag(products)
        return np.asarray(np.maximum(0.0, own[:, None] + own[None, :] - 2 * products) / items**2)

    difference = means[:, None] - means[None, :]
    return difference, _student(difference, variances, clusters, units, np.full(difference.shape, _count(clusters)))


def _against_all(row: Floats, values: Floats, clusters: Codes, units: Units | None) -> tuple[Floats, Floats]:
    """One model against all, each on the items that both scored."""
    gaps = row[None, :] - values
    both = ~np.isnan(gaps)
    counts = both.sum(axis=1)
    with np.errstate(invalid="ignore"):
        difference = np.where(counts > 0, np.nansum(gaps, axis=1) / counts, 0.0)
    residuals = np.where(both, gaps - difference[:, None], 0.0)

    def variances(codes: Codes) -> Floats:
        return np.asarray((_sums(residuals, codes) ** 2).sum(axis=1) / np.maximum(counts, 1) ** 2)

    users = (_sums(both.astype(float), clusters) > 0).sum(axis=1)
    return difference, _student(difference, variances, clusters, units, users)


def _student(
    difference: Floats, variances: Callable[[Codes], Floats], clusters: Codes, units: Units | None, users: Codes
) -> Floats:
    n = np.maximum(users, 2)
    between_users = variances(clusters) * n / (n - 1)
    added, freedom = np.zeros_like(between_users), np.ones_like(between_users)
    if units is not None and units.count > 1:
        between_units = variances(units.codes) * units.count / (units.count - 1)
        added = np.maximum(0.0, between_units - np.minimum(variances(units.cells), between_users))
        freedom = np.full_like(between_users, units.count - 1)
    variance = between_users + added
    tiny = variance <= 1e-18
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(tiny, 1.0, between_users / variance)
        freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / freedom)  # Satterthwaite (1946)
        t = np.where(tiny, np.where(np.abs(difference) > 1e-12, np.inf, 0.0), np.abs(difference) / np.sqrt(variance))
    return np.where(users < 2, 1.0, np.asarray(2 * stats.t.sf(t, freedom)))


class AgainstRest(NamedTuple):
    """Means on part of the items minus means on the others, by model."""

    difference: Floats
    low: Floats
    high: Floats
    p: Floats


def against_rest(values: Floats, inside: NDArray[np.bool_], clusters: Codes) -> AgainstRest:
    """How each row of `values` (models, items) does on some items, less how it does on the rest, with 95% intervals.

    Users may have items on both sides; a cluster counts as one all the same. nan where a side has no score.
    """
    scored = ~np.isnan(values)
    filled = np.where(scored, values, 0.0)
    influence = np.zeros((len(values), _count(clusters)))
    means = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for sign, part in ((1.0, inside), (-1.0, ~inside)):
            counts = (scored & part).sum(axis=1)
            mean = (filled * part).sum(axis=1) / counts
            residuals = np.where(scored & part, filled - np.nan_to_num(mean)[:, None], 0.0)
            influence += sign * _sums(residuals, clusters) / np.maximum(counts, 1)[:, None]
            means.append(mean)
        difference = means[0] - means[1]
        n = np.maximum(2, (_sums(scored.astype(float), clusters) > 0).sum(axis=1))
        error = np.sqrt((influence**2).sum(axis=1) * n / (n - 1))
        reach = stats.t.ppf(0.975, n - 1) * error
        t = np.where(error > 0, np.abs(difference) / error, 0.0)
    p = np.where(np.isnan(difference), 1.0, 2 * stats.t.sf(t, n - 1))
    return AgainstRest(difference, np.maximum(-1, difference - reach), np.minimum(1, difference + reach), p)


def _count(codes: Codes) -> int:
    return int(codes.max()) + 1


def _sums(values: Floats, codes: Codes) -> Floats:
    """Columns of items added up by their codes."""
    there = coo_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(_count(codes), len(codes)))
    return np.asarray((there.tocsr() @ values.T).T)
