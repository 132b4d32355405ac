"""What a small step along a gradient brings, from covariances within prompts.

Arrays are (items, texts), nan where a number is missing. A step that changes the log-probability of each text by w
changes the mean of anything else, y, by cov(w, y) to first order, and diverges by var(w) / 2 nats. So cov(w, y) over
the deviation of w is the gain for each unit of sqrt(2 KL), however long the step.
"""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.stats import Floats

EQUAL = 1e-9
"""Scores that differ by less than this part of their size are the same."""


class Direction(msgspec.Struct, frozen=True, eq=False):
    """What texts are paid, and how fast their log-probabilities rise along the gradient of that pay."""

    scores: Floats
    slopes: Floats
    """Along the gradient of the other half of the users."""


def centred(values: Floats) -> Floats:
    """Each text's number less the mean of its prompt's; nan for a text that is alone."""
    has = ~np.isnan(values)
    count = has.sum(axis=1, keepdims=True)
    means = np.where(has, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return np.where(has & (count > 1), values - means, np.nan)


def squares(values: Floats) -> tuple[Floats, Floats]:
    """By item: the sum of squares within it, and its degrees of freedom."""
    apart = centred(values)
    return np.nansum(apart**2, axis=1), np.maximum((~np.isnan(apart)).sum(axis=1) - 1.0, 0.0)


def deviation(values: Floats) -> float:
    """Within prompts, over all of them; 0 where no prompt's texts differ."""
    total, freedom = (column.sum() for column in squares(values))
    found = float(np.sqrt(total / freedom)) if freedom else 0.0
    return found if found and found > EQUAL * float(np.nanmax(np.abs(values))) else 0.0


def advantages(values: Floats) -> Floats:
    """Centred on their prompt and scaled to deviation 1 over all prompts; 0 where all are the same."""
    scale = deviation(values)
    return centred(values) / scale if scale else 0.0 * centred(values)


def covariances(one: Floats, other: Floats) -> Floats:
    """By item, unbiased, over the texts that have both; nan with fewer than two of them."""
    both = ~np.isnan(one) & ~np.isnan(other)
    first, second = (centred(np.where(both, values, np.nan)) for values in (one, other))
    freedom = both.sum(axis=1) - 1.0
    return np.where(freedom > 0, np.nansum(first * second, axis=1) / np.maximum(freedom, 1), np.nan)


def gains(half: NDArray[np.intp], along: Direction, of: Direction, step: Direction | None = None) -> Floats:
    """What a step along the gradient of one pay brings in another, for each unit of sqrt(2 KL).

    With `step`, the step has the length that a unit along that one has: what two gradients bring can be subtracted.

    A value for each item, nan where it has none. Their mean is the gain. They spread as the gain itself does when
    other people are drawn, to first order (the delta method): each item counts as one that is read,
    cov(slopes along the gradient, y); for what it adds to the deviation that this is divided by; and as one that the
    gradient came from. The last is cov(slopes along y's own gradient, pay), since the product of two gradients is the
    same from both sides.
    """
    values, parts = np.full(len(half), np.nan), np.zeros(len(half))
    scale = deviation(along.scores)
    read = covariances(along.slopes, of.scores)
    source = covariances(of.slopes, along.scores) * (deviation(of.scores) / scale if scale else 0.0)
    total, freedom = squares((step or along).slopes)
    for side in (0, 1):
        mine, others = (half == side) & ~np.isnan(read), (half != side) & ~np.isnan(source)
        variance = total[mine].sum() / max(freedom[mine].sum(), 1.0)
        if not variance:
            continue
        root = np.sqrt(variance)
        values[mine] = (read[mine] - read[mine].mean() * _excess(total[mine], freedom[mine])) / root
        if others.any():
            parts[others] = (source[others] - source[others].mean()) / root * mine.sum() / others.sum()
    return values + parts


def in_deviations(values: Floats, scores: Floats) -> Floats:
    """The same in deviations of the scores, whose own spread over people counts, too."""
    has = ~np.isnan(values)
    scale = deviation(scores)
    if not has.any() or not scale:
        return np.full(len(values), np.nan)
    found = values / scale
    total, freedom = squares(scores)
    found[has] -= np.mean(found[has]) * _excess(total[has], freedom[has])
    return found


def _excess(total: Floats, freedom: Floats) -> Floats:
    """Half of what each item's sum of squares has beyond the common variance, as a part of it; 0 on average."""
    variance = total.sum() / max(freedom.sum(), 1.0)
    if not variance:
        return np.zeros_like(total)
    return np.asarray((total - variance * freedom) / (2 * variance * freedom.mean()))


def agreements(scores: Floats, grades: Floats) -> Floats:
    """By item: of the pairs of texts that the critic tells apart, how many the reward orders as it does; ties half."""
    found = np.full(len(scores), np.nan)
    for place, (own, marks) in enumerate(zip(scores, grades, strict=True)):
        known = [(mark, score) for mark, score in zip(marks, own, strict=True) if not np.isnan(mark + score)]
        pairs = [np.sign(np.subtract(*two)) for two in combinations(known, 2) if two[0][0] != two[1][0]]
        if pairs:
            found[place] = np.mean([(1 + mark * score) / 2 for mark, score in pairs])
    return found
