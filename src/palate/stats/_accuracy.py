"""What an answer earns, and how far the probabilities that a model claims can be believed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def credit(scores: Sequence[float], preferred: int) -> float:
    """1 when the preferred response alone scores best, its fair share of a tie for best, otherwise 0.

    >>> credit([0.2, 0.9], preferred=1), credit([0.5, 0.5], preferred=0), credit([3, 3, 1], preferred=2)
    (1.0, 0.5, 0.0)
    """
    best = max(scores)
    return 1 / sum(score == best for score in scores) if scores[preferred] == best else 0.0


def brier(probabilities: Sequence[Sequence[float]], preferred: Sequence[int]) -> float:
    """Mean over items of half the squared error of the probabilities, so that a pair gets the usual score.

    >>> brier([[0.5, 0.5], [1.0, 0.0]], preferred=[0, 0])
    0.125
    """
    errors = [
        sum((claimed - (index == chosen)) ** 2 for index, claimed in enumerate(item)) / 2
        for item, chosen in zip(probabilities, preferred, strict=True)
    ]
    return float(np.mean(errors))


def expected_calibration_error(
    probabilities: Sequence[Sequence[float]], preferred: Sequence[int], bins: int = 10
) -> float:
    """Mean distance between the top probability and how often it is right, in bins of equal width.

    >>> expected_calibration_error([[0.9, 0.1], [0.9, 0.1]], preferred=[0, 1])
    0.4
    """
    claimed = np.array([max(item) for item in probabilities])
    right = np.array([credit(item, chosen) for item, chosen in zip(probabilities, preferred, strict=True)])
    bin_of = np.minimum((claimed * bins).astype(np.intp), bins - 1)
    # Within a bin, items / all items * |mean claimed - mean right| is the distance between the sums / all.
    return float(np.abs(np.bincount(bin_of, weights=claimed - right)).sum() / len(claimed))
