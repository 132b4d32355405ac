"""What best-of-k is worth: the exact expectation over every subset of k of the N samples that were drawn.

The first k samples are one subset of many, and their best a noisy number. Sorted by reward, the sample with b
better ones is chosen from a random subset if it is in it and none of the b is, so the expectation needs no luck:
it is a sum over samples. Samples that tie for best share the choice evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from palate.stats import Floats


def chosen_probabilities(rewards: Sequence[float], k: int) -> Floats:
    """How likely each sample is to be the best by reward of a random subset of k.

    >>> chosen_probabilities([0.1, 0.9, 0.5], k=2).round(3).tolist()
    [0.0, 0.667, 0.333]
    >>> chosen_probabilities([1, 1, 0], k=3).tolist()
    [0.5, 0.5, 0.0]
    """
    n = len(rewards)
    if not 1 <= k <= n:
        raise ValueError(f"the best of {k} cannot be taken from {n} samples")
    subsets = math.comb(n, k)
    probabilities = np.zeros(n)
    better = 0
    for _, tied in groupby(sorted(range(n), key=lambda index: -rewards[index]), key=lambda index: rewards[index]):
        block = list(tied)
        # Subsets with none that is better, less those with none of the block either.
        won = math.comb(n - better, k) - math.comb(n - better - len(block), k)
        probabilities[block] = won / subsets / len(block)
        better += len(block)
    return probabilities


def best_of(rewards: Sequence[float], values: Sequence[float], k: int) -> float:
    """The value to expect of the sample that the rewards choose among k.

    >>> best_of([1, 2, 3, 4], [10, 20, 30, 40], k=4), best_of([1, 2, 3, 4], [10, 20, 30, 40], k=1)
    (40.0, 25.0)
    """
    return float(chosen_probabilities(rewards, k) @ np.asarray(values, dtype=np.float64))


def divergence_bound(k: int) -> float:
    """log k - (k - 1)/k: best-of-k is at most this many nats away from the policy (Kullback and Leibler).

    It is reached where no two samples can be the same; where the policy repeats itself, the true number is less.

    >>> round(divergence_bound(4), 3)
    0.636
    """
    return math.log(k) - (k - 1) / k


def doubling(n: int) -> list[int]:
    """1, 2, 4 and so on, and n itself.

    >>> doubling(16), doubling(6)
    ([1, 2, 4, 8, 16], [1, 2, 4, 6])
    """
    steps = [2**power for power in range(n.bit_length()) if 2**power <= n]
    return steps if steps[-1] == n else [*steps, n]
