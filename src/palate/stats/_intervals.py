"""Intervals, tests and calibration, all of which resample clusters of users and never rows.

A cluster is a user, or several users who share twin items and so are not independent. Whatever is
reported is a function of totals over clusters: an accuracy is the total credit over the total number
of items, a gain is a total of differences over the same number. Where users judge the same items, the
items are a sample as well, and intervals are widened for it. See docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr, stdtrit

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From totals (..., columns) to a number (...). Doubling every total must not change it."""

SHARE = (0.0, 1.0)
"""The range of an accuracy."""
GAIN = (-1.0, 1.0)
"""The range of a difference between accuracies."""
ANYWHERE = (-np.inf, np.inf)

_CHUNK = 2**20
"""Cluster weights held at once: 8 MiB."""
_COLUMNS = 512
"""Bootstrapped columns held at once: 40 MiB at 10,000 resamples."""
_SMALLEST_ERROR = 0.2
"""A resample whose standard error is less than this part of the sample's has missed those who differ."""
_ENOUGH_TO_MISS = 5
"""With this many users who make up the variance, it counts as the whole of the sample's; see `_standard_errors`."""
_ENOUGH_TO_DRAW = 5
"""Of fewer users there are too few different resamples, and Student's interval is taken where it is wider."""
_UNSEEN_USER = 0.5
"""The weight of the user who was not seen, in users: a half is what Jeffreys' interval for a share adds."""
_EXACT_FLIPS = 16
"""Up to this many users who differ, all ways of flipping their signs are tried."""


class Estimate(msgspec.Struct, frozen=True):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Resamples:
    """A stream of bootstrap weights: how often each cluster was drawn in each resample.

    The same seed and number of clusters give the same weights, so all intervals of a table are paired.

    >>> [weights.sum(axis=1) for weights in Resamples(n_clusters=5, seed=1, n_resamples=3)]
    [array([5., 5., 5.])]
    """

    n_clusters: int
    seed: int = 0
    n_resamples: int = 10_000

    def __iter__(self) -> Iterator[Floats]:
        """Yield weights (some resamples, clusters), a few resamples at a time to keep memory small."""
        random = np.random.default_rng(self.seed)
        rows = max(1, _CHUNK // max(1, self.n_clusters))
        for start in range(0, self.n_resamples, rows):
            count = min(rows, self.n_resamples - start)
            drawn = random.integers(max(1, self.n_clusters), size=(count, self.n_clusters))
            drawn += np.arange(count)[:, None] * self.n_clusters
            weights = np.bincount(drawn.ravel(), minlength=count * self.n_clusters)
            yield weights.reshape(count, self.n_clusters).astype(np.float64)

    def continuous(self) -> Iterator[Floats]:
        """Yield the exponential weights of the Bayesian bootstrap (Rubin 1981) instead: everybody counts a little."""
        random = np.random.default_rng(self.seed)
        rows = max(1, _CHUNK // max(1, self.n_clusters))
        for start in range(0, self.n_resamples, rows):
            yield random.standard_exponential((min(rows, self.n_resamples - start), self.n_clusters))


@dataclass(frozen=True, eq=False)
class Crossed:
    """The same totals added up in two other ways, where users judge the same items."""

    by_unit: Floats
    """(units, columns); a unit is an item that several users judge, or a group of items."""
    by_cell: Floats
    """(cells, columns); a cell is what one cluster of users judged of one unit."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """Something to report: totals by cluster (clusters, columns), and what is computed from their sum."""

    totals: Floats
    statistic: Statistic
    within: tuple[float, float] = ANYWHERE
    """The values that are possible at all; limits are cut there."""
    crossed: Crossed | Callable[[], Crossed] | None = None
    """Where given, the interval is about new items as well as new users. A function where it is to be made only while
    it is needed: it is as long as the items are many, and a table has hundreds of quantities."""


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference with its interval and the test whose null is a mean of zero."""

    difference: float
    low: float | None
    high: float | None
    p: float
    """Two-sided. Below .05 exactly where the interval leaves zero out, but for the last resample."""
    q: float
    """p with the false discovery rate held over the list that was asked for."""
    carried_by: int | None
    """How few users carry it: without this many of them the interval would hold zero. None where it does anyway."""


def ratio(totals: Floats) -> Floats:
    """The first total over the second: the statistic of accuracies and gains."""
    return np.asarray(totals[..., 0] / totals[..., 1])


def cluster_totals(values: ArrayLike, clusters: ArrayLike, n_clusters: int) -> Floats:
    """Add up items (items, columns), or one column of them, by their cluster codes.

    >>> cluster_totals([[1, 1], [0, 1], [1, 1]], [0, 0, 2], n_clusters=3)
    array([[1., 2.],
           [0., 0.],
           [1., 1.]])
    """
    items = np.asarray(values, dtype=np.float64)
    items = items[:, None] if items.ndim == 1 else items
    codes = np.asarray(clusters, dtype=np.intp)
    sums = [np.bincount(codes, weights=column, minlength=n_clusters) for column in items.T]
    return np.stack(sums, axis=1)


def bootstrap_totals(totals: Floats, resamples: Resamples) -> Floats:
    """Totals (resamples, columns) over the clusters that each resample drew."""
    return _weighted(totals, resamples.n_clusters, iter(resamples))


def _weighted(totals: Floats, n_clusters: int, weights: Iterator[Floats]) -> Floats:
    if len(totals) != n_clusters:
        raise ValueError(f"totals of {len(totals)} clusters, but resamples of {n_clusters}")
    return np.concatenate([some @ totals for some in weights])


def intervals(quantities: Sequence[Quantity], resamples: Resamples) -> list[Estimate | None]:
    """Estimates with 95% intervals, for a whole table in as few passes as memory allows.

    None where there is no honest interval: fewer than two clusters with data, a value that is not
    finite, or one that is not finite in more than 5% of the resamples.
    """
    estimates: list[Estimate | None] = []
    waiting: list[tuple[Quantity, int]] = []
    for quantity in quantities:
        columns = quantity.totals.shape[1]
        width = columns + columns * (columns + 1) // 2
        if waiting and sum(held for _, held in waiting) + width > _COLUMNS:
            estimates += _bootstrap(waiting, resamples)
            waiting = []
        waiting.append((quantity, width))
    return estimates + (_bootstrap(waiting, resamples) if waiting else [])


def interval(
    totals: Floats, statistic: Statistic, resamples: Resamples, within: tuple[float, float] = ANYWHERE
) -> Estimate | None:
    """One estimate with its interval; `intervals` does many in one pass."""
    return intervals([Quantity(totals, statistic, within)], resamples)[0]


def ratio_interval(
    numerators: ArrayLike, denominators: ArrayLike, resamples: Resamples, within: tuple[float, float]
) -> Estimate | None:
    """The sum of numerators over the sum of denominators, both by cluster.

    >>> ratio_interval([3, 1, 2, 4], [4, 4, 4, 4], Resamples(4), within=SHARE).value
    0.625
    """
    totals = np.stack([np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)], axis=1)
    return interval(totals, ratio, resamples, within)


def _bootstrap(waiting: list[tuple[Quantity, int]], resamples: Resamples) -> list[Estimate | None]:
    ends = np.cumsum([width for _, width in waiting])
    moments = np.empty((len(waiting[0][0].totals), int(ends[-1])))
    for (quantity, _), own in zip(waiting, np.split(moments, ends[:-1], axis=1), strict=True):
        # The columns, then the product of every two of them: what a variance needs in each resample.
        columns = quantity.totals.shape[1]
        left, right = np.triu_indices(columns)
        own[:, :columns] = quantity.totals
        np.multiply(own[:, left], own[:, right], out=own[:, columns:])
    drawn, ends = bootstrap_totals(moments, resamples), ends[:-1]
    pairs = zip(waiting, np.split(drawn, ends, axis=1), strict=True)
    with np.errstate(all="ignore"):
        return [_estimate(quantity, moments) for (quantity, _), moments in pairs]


def _estimate(quantity: Quantity, drawn: Floats) -> Estimate | None:
    """On each side, the further of the limits of two intervals that fail in different places.

    The percentile interval is too short on the long side of a skewed statistic; Efron's bootstrap-t
    follows skewness but is narrow for gains that few users have. Both take their limits a little further
    out than 2.5%, by Hesterberg's (2015) correction for few clusters. benchmarks/coverage.py is the proof.
    """
    totals = np.asarray(quantity.totals, dtype=np.float64)
    n = np.count_nonzero(totals.any(axis=1))
    value = float(quantity.statistic(totals.sum(axis=0)))
    if n < 2 or not np.isfinite(value):
        return None
    values = quantity.statistic(drawn[:, : totals.shape[1]])
    finite = np.isfinite(values)
    error, errors = _standard_errors(quantity.statistic, totals, drawn)
    if np.mean(finite) < 0.95 or not np.isfinite(error):
        return None
    same = error <= 1e-6 * abs(value)  # everybody, but for rounding
    deviations = np.zeros_like(values) if same else (values - value) / errors
    tail = ndtr(-np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975))
    studentised = value - error * np.quantile(deviations[finite], [1 - tail, tail])
    expanded = np.quantile(values[finite], [tail, 1 - tail])
    low, high = min(studentised[0], expanded[0]), max(studentised[1], expanded[1])
    if n < _ENOUGH_TO_DRAW:
        reach = stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1)) * error
        low, high = min(low, value - reach), max(high, value + reach)
    added, freedom = _between_items(quantity)
    reach = stdtrit(freedom, 0.975) * np.sqrt(added)
    low, high = value - np.hypot(value - low, reach), value + np.hypot(high - value, reach)
    least, most = quantity.within
    if same and value in quantity.within and np.isfinite(most - least):
        # Everybody at the end of the range says no more than n coins that all fell the same way.
        unseen = (most - least) * (1 - 0.025 ** (1 / n))
        low, high = (value, value + unseen) if value == least else (value - unseen, value)
    return Estimate(value, *(float(limit) for limit in np.clip([low, high], least, most)))


def _standard_errors(statistic: Statistic, totals: Floats, drawn: Floats) -> tuple[float, Floats]:
    """The standard error of the sample and of each resample, by the delta method.

    A resample that misses the few users who differ has an error near zero and a t near infinity, and would push
    the limits anywhere. So such an error counts as a part of the sample's: a fifth where one user differs, two
    fifths where two do, and so on. Where each user has one item, this gives about the limits of Wilson's interval.
    """
    columns = totals.shape[1]
    steps = 1e-4 * np.sqrt((totals**2).sum(axis=0))
    parts = (totals @ _gradient(statistic, totals.sum(axis=0), steps)) ** 2
    error = np.sqrt(parts.sum())
    who_differ = parts.sum() ** 2 / (parts**2).sum() if error > 0 else 1.0
    smallest = np.clip(who_differ / _ENOUGH_TO_MISS, _SMALLEST_ERROR, 1.0)
    left, right = np.triu_indices(columns)
    gradients = _gradient(statistic, drawn[:, :columns], steps)
    products = gradients[:, left] * gradients[:, right] * np.where(left == right, 1.0, 2.0)
    variances = np.nan_to_num(np.sum(products * drawn[:, columns:], axis=1))
    missed = variances < (_SMALLEST_ERROR * error) ** 2
    return float(error), np.where(missed, smallest * error, np.sqrt(variances))


def _gradient(statistic: Statistic, totals: Floats, steps: Floats) -> Floats:
    """Central differences (..., columns) of a statistic; a column of zeros has no slope."""
    slopes = np.zeros_like(totals)
    for column in np.flatnonzero(steps):
        step = np.where(np.arange(len(steps)) == column, steps, 0.0)
        rise = statistic(totals + step) - statistic(totals - step)
        slopes[..., column] = rise / (2 * steps[column])
    return slopes


def _between_items(quantity: Quantity) -> tuple[float, float]:
    """The variance that new items add to that of new users, and how many degrees of freedom it has.

    The whole variance is that between users, plus that between items, less that of single answers, which both contain
    (Cameron, Gelbach and Miller 2011, equation 2.11), and never less than either.
    """
    if quantity.crossed is None:
        return 0.0, 1
    crossed = quantity.crossed if isinstance(quantity.crossed, Crossed) else quantity.crossed()
    totals = np.asarray(quantity.totals, dtype=np.float64)
    gradient = _gradient(quantity.statistic, totals.sum(axis=0), 1e-4 * np.sqrt((totals**2).sum(axis=0)))
    between_users, between_units, answers = (
        float(np.sum((by @ gradient) ** 2)) for by in (totals, crossed.by_unit, crossed.by_cell)
    )
    units = int(np.count_nonzero(crossed.by_unit.any(axis=1)))
    if units < 2 or not np.isfinite(between_users + between_units):
        return 0.0, 1
    between_units *= units / (units - 1)
    return max(0.0, between_units - min(answers, between_users)), units - 1


def paired_differences(quantities: Sequence[Quantity], resamples: Resamples) -> list[PairedDifference]:
    """Mean differences, each a total of differences over a number of items, as one table.

    The interval is made for effects that few users have, where resampling the users who were seen is blind to those
    who were not. Each limit weighs the users afresh (the Bayesian bootstrap) together with half of one more user,
    who differs as much as anybody did, upwards for the upper limit and downwards for the lower one. With a whole
    user at the end of the range this would be Gaffke's (2005) bound, which for shares is the exact interval; with
    half of one it is Jeffreys'. Student's limit counts where it is further out. p is the same, turned round.
    """
    found: list[PairedDifference] = []
    batch = _COLUMNS // 2
    for start in range(0, len(quantities), batch):
        some = quantities[start : start + batch]
        totals = np.concatenate([quantity.totals for quantity in some], axis=1).astype(np.float64)
        drawn = _weighted(totals, resamples.n_clusters, resamples.continuous())
        unseen = np.random.default_rng([resamples.seed, 1]).gamma(_UNSEEN_USER, size=len(drawn))
        found += [
            _paired_difference(quantity, drawn[:, 2 * place : 2 * place + 2], unseen)
            for place, quantity in enumerate(some)
        ]
    # A difference that is zero for everybody, such as that of a control which does not read the view, is no test.
    tested = [place for place, quantity in enumerate(quantities) if quantity.totals[:, 0].any()]
    for place, q in zip(tested, false_discovery([found[place].p for place in tested]), strict=True):
        found[place] = replace(found[place], q=q)
    return found


def _paired_difference(quantity: Quantity, drawn: Floats, unseen: Floats) -> PairedDifference:
    sums, counts = np.asarray(quantity.totals, dtype=np.float64)[quantity.totals[:, 1] > 0].T
    n = len(sums)
    value = float(sums.sum() / counts.sum())
    if n < 2:
        return PairedDifference(value, None, None, 1.0, 1.0, None)
    added, freedom = _between_items(quantity)
    new_items = np.sqrt(added) * np.random.default_rng(n).standard_t(freedom, len(drawn)) if added else 0.0
    # The unseen user has the mean number of items or, where few users hold most of them, a third of what those have.
    count = unseen * max(counts.mean(), np.sum(counts**2) / counts.sum() / 3)
    reach = np.abs(sums / counts).max()
    limits = []
    tails = []
    for sign in (-1.0, 1.0):
        values = (drawn[:, 0] + sign * reach * count) / (drawn[:, 1] + count) + new_items
        limits.append(float(np.quantile(values, 0.5 + sign * 0.475)))
        tails.append((np.count_nonzero(sign * values >= 0) + 1) / (len(values) + 1))
    between_users = np.sum((sums - value * counts) ** 2) * n / (n - 1) / counts.sum() ** 2
    error = np.sqrt(between_users + added)
    if error > 0:  # the degrees of freedom of a sum of two variances, by Satterthwaite (1946)
        share = between_users / (between_users + added)
        freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / freedom)
    student = float(error * stdtrit(freedom, 0.975))
    low, high = min(limits[0], value - student), max(limits[1], value + student)
    p = max(2 * min(tails), _flip_test(sums))
    if error > 0:
        p = max(p, float(2 * stdtr(freedom, -abs(value) / error)))
    p = min(1.0, float(p))
    if p >= 0.05:
        low, high = min(low, 0.0), max(high, 0.0)
    low, high = (float(limit) for limit in np.clip([low, high], *quantity.within))
    return PairedDifference(value, low, high, p, 1.0, _carried_by(sums, counts, low, high))


def _carried_by(sums: Floats, counts: Floats, low: float, high: float) -> int | None:
    """The fewest users, those who pull furthest, without whom an interval as wide in standard errors holds zero.

    Broderick, Giordano and Meager (2020) ask the same of regressions.
    """
    if low <= 0 <= high:
        return None
    sums = sums * np.sign(sums.sum())
    value = sums.sum() / counts.sum()
    order = np.argsort(value * counts - sums, kind="stable")
    # What is left without nobody, without the first, without the first two, and so on.
    left, items, squares, products, items_squared = (
        np.cumsum(column[order][::-1])[::-1] for column in (sums, counts, sums**2, sums * counts, counts**2)
    )
    values = left / items
    errors = np.sqrt(np.maximum(0.0, squares - 2 * values * products + values**2 * items_squared)) / items
    width = (value - min(abs(low), abs(high))) / errors[0] if errors[0] > 0 else 0.0
    holds_zero = values[1:] <= width * errors[1:]
    return int(holds_zero.argmax()) + 1 if holds_zero.any() else len(sums)


def _flip_test(sums: Floats) -> float:
    """The share of all ways of flipping the signs of users that give a total as far out; 0 with more than 16 of them.

    Exact where differences are as likely one way as the other. With few users it keeps p honest: five who all gain
    would be no wonder.
    """
    differ = sums[sums != 0]
    if len(differ) > _EXACT_FLIPS:
        return 0.0
    # A sum of thirds depends on its order: without slack, equal sums would not count as equal.
    bar = abs(differ.sum()) - 1e-9 * np.abs(differ).sum()
    flipped = np.zeros(1)
    for difference in differ:
        flipped = np.concatenate([flipped + difference, flipped - difference])
    return float(np.mean(np.abs(flipped) >= bar))


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q-values: calling all with q <= 0.05 keeps false calls near 5%.

    >>> false_discovery([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    if not p_values:
        return []
    order = np.argsort(p_values)
    ratios = np.asarray(p_values)[order] * (len(order) / np.arange(1, len(order) + 1))
    found = np.empty(len(order))
    found[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return [float(q) for q in found]
