"""The smallest gain that so much data would probably show: how large a difference of two models has to be.

On an item the paired difference of two models is 1, 0 or -1, with a variance of about the share of items on which they
differ when the gain is small. Answers of one person are alike, and so are answers to one item; the more there are of
either, the less each adds (Kish's design effect, for two crossed kinds of clusters).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LEVEL = 0.05
"""Of the two-sided test."""
POWER = 0.8
"""The probability with which the gain is found."""
DIFFER = 0.3
"""Two models of which one is right and the other wrong on three items in ten: a profile that changes much."""

UNSEEN_PEOPLE = 5
"""People that a collection needs beyond the normal approximation. Student's limits, the people who were not seen and
the flips of few signs all cost power, most where people are few: of five, no test can be below .05. With 5 more the
test finds the gain in 78 to 92% of simulated collections of 9 to 137 people (`palate audit plan --check`)."""


def effective_items(
    sizes: ArrayLike, correlation: float, shared: ArrayLike = (), shared_correlation: float = 0.0
) -> float:
    """How many independent answers are worth as much as these.

    `sizes` are the answers of each person and `correlation` is how alike they are. Where several people judge the same
    items, `shared` are the answers to each item and `shared_correlation` is how alike those are.

    >>> effective_items([10] * 5, 0.0), effective_items([10] * 5, 1.0)
    (50.0, 5.0)
    """
    people, items = (np.asarray(counts, dtype=np.float64) for counts in (sizes, shared))
    variance = np.sum(people * (1 + (people - 1) * correlation)) + np.sum(items * (items - 1)) * shared_correlation
    return float(people.sum()) ** 2 / float(variance)


def smallest_gain(effective: float, differ: float = DIFFER, *, level: float = LEVEL, power: float = POWER) -> float:
    """The gain that a two-sided test finds with this power, by the normal approximation; at most 1."""
    reach = stats.norm.ppf(1 - level / 2) + stats.norm.ppf(power)
    return min(1.0, float(reach * np.sqrt(differ / effective)))
