"""How alike two orders are: six coefficients, for thousands of orders at once.

Arrays are (orders, models), or (models,) for one order; higher is better, and no value is missing. Models that tie
share the mean of what their places are worth, except in rank-biased overlap. Where one side is the same for all
models, the coefficient is nan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from palate.stats._intervals import Floats

PERSISTENCE = 0.9
"""The p of rank-biased overlap: how likely a reader goes on to the next place."""
COEFFICIENTS = ("pearson", "spearman", "kendall", "weighted_tau", "rbo", "ndcg")
_EXACT_MODELS = 8
"""Up to this many models, all orders are tried: 40,320."""


def coefficients(first: Floats, second: Floats) -> dict[str, Floats]:
    """All six by name. `second` is the outcome; it matters for NDCG alone.

    >>> found = coefficients(np.array([[1.0, 2.0, 3.0]]), np.array([[10.0, 30.0, 20.0]]))
    >>> {name: round(float(values[0]), 3) for name, values in found.items()}
    {'pearson': 0.5, 'spearman': 0.5, 'kendall': 0.333, 'weighted_tau': 0.182, 'rbo': 0.9, 'ndcg': 0.922}
    """
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    places = _Places.of(first), _Places.of(second)
    with np.errstate(all="ignore"):
        kendall, weighted_tau = _taus(*places)
        found = {
            "pearson": pearson(first, second),
            "spearman": pearson(places[0].mean, places[1].mean),
            "kendall": kendall,
            "weighted_tau": weighted_tau,
            "rbo": _rank_biased_overlap(*places),
            "ndcg": _ndcg(*places),
        }
    flat = places[0].flat | places[1].flat
    return {name: np.where(flat, np.nan, values) for name, values in found.items()}


def pearson(first: Floats, second: Floats) -> Floats:
    """Pearson's correlation along the last axis; nan where one side is constant."""
    first = first - first.mean(axis=-1, keepdims=True)
    second = second - second.mean(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        length = np.sqrt(np.sum(first**2, axis=-1) * np.sum(second**2, axis=-1))
        return np.where(length > 0, np.clip(np.sum(first * second, axis=-1) / length, -1, 1), np.nan)


def spearman(first: Floats, second: Floats) -> Floats:
    """Spearman's rank correlation along the last axis of (orders, models)."""
    return pearson(_Places.of(first).mean, _Places.of(second).mean)


@dataclass(frozen=True, eq=False)
class _Places:
    """The places of models in each order, 1 for the best: the first and the last of those that they share."""

    first: NDArray[np.int16]
    last: NDArray[np.int16]

    @classmethod
    def of(cls, values: Floats) -> _Places:
        n = values.shape[1]
        order = np.argsort(-values, axis=1)
        ordered = np.take_along_axis(values, order, axis=1)
        places = np.broadcast_to(np.arange(1, n + 1, dtype=np.int16), values.shape)
        above, below = np.ones(values.shape, dtype=bool), np.ones(values.shape, dtype=bool)
        above[:, 1:] = below[:, :-1] = ordered[:, 1:] != ordered[:, :-1]
        starts = np.maximum.accumulate(np.where(above, places, 0), axis=1)
        ends = np.minimum.accumulate(np.where(below, places, n)[:, ::-1], axis=1)[:, ::-1]
        first, last = np.empty(values.shape, np.int16), np.empty(values.shape, np.int16)
        np.put_along_axis(first, order, starts.astype(np.int16), axis=1)
        np.put_along_axis(last, order, ends.astype(np.int16), axis=1)
        return cls(first, last)

    @property
    def mean(self) -> Floats:
        return np.asarray((self.first + self.last) / 2.0)

    @property
    def flat(self) -> NDArray[np.bool_]:
        return np.asarray(np.all(self.first == 1, axis=1))


def _taus(first: _Places, second: _Places) -> tuple[Floats, Floats]:
    """Kendall's tau-b, and Vigna's (2015) weighted tau.

    In the weighted one a pair weighs 1 / place + 1 / place, and it is the mean of the taus with the places of either
    side. scipy's weightedtau breaks ties by the other side; here models that tie share their mean place.
    """
    n = first.first.shape[1]
    concordant = np.zeros(np.broadcast_shapes(first.first.shape, second.first.shape), dtype=np.int16)
    """Pairs of each model that both sides order alike, less those that they order differently."""
    for step in range(1, n):
        signs = []
        for places in (first.first, second.first):
            others = np.roll(places, step, axis=1)
            signs.append((places < others).view(np.int8) - (places > others).view(np.int8))
        concordant += signs[0] * signs[1]
    untied = [n - 1.0 - (side.last - side.first) for side in (first, second)]
    lengths = np.sqrt(untied[0].sum(axis=1) * untied[1].sum(axis=1))
    sides = []
    for side in (first, second):
        weights = 1 / side.mean
        norms = [np.sum(weights * pairs, axis=1) for pairs in untied]
        sides.append(np.sum(weights * concordant, axis=1) / np.sqrt(norms[0] * norms[1]))
    return concordant.sum(axis=1) / lengths, (sides[0] + sides[1]) / 2


def _rank_biased_overlap(first: _Places, second: _Places) -> Floats:
    """Extrapolated rank-biased overlap (Webber, Moffat and Zobel 2010, equation 32), with ties as they treat them.

    Models that tie all stand at the first of their places, and the agreement at a depth is twice the overlap over the
    number of models that the two sides have down to there.
    """
    n = first.first.shape[1]
    places = first.first, second.first
    both, *sizes = (np.cumsum(_counts(place - 1, n), axis=1) for place in (np.maximum(*places), *places))
    shares = (1 - PERSISTENCE) * PERSISTENCE ** np.arange(n)
    shares[-1] += PERSISTENCE**n  # below the last place the agreement stays what it is there
    return np.asarray(2 * both / (sizes[0] + sizes[1]) @ shares)


def _counts(codes: NDArray[np.int16], n: int) -> Floats:
    """How often each of n codes comes in each row."""
    flat = codes + np.arange(len(codes))[:, None] * n
    return np.bincount(flat.ravel(), minlength=len(codes) * n).reshape(-1, n).astype(np.float64)


def _ndcg(predicted: _Places, outcome: _Places) -> Floats:
    """NDCG over all places: the best of n outcomes gains n and the worst 1, and place k counts 1 / log2(1 + k).

    Gains are of ranks, so that the unit of the outcome does not matter.
    """
    n = predicted.first.shape[1]
    discounts = 1 / np.log2(np.arange(2, n + 2))
    down_to = np.concatenate([[0.0], np.cumsum(discounts)])
    width = predicted.last - predicted.first + 1
    shared = (down_to[predicted.last] - down_to[predicted.first - 1]) / width
    gains = n + 1 - outcome.mean
    return np.asarray(np.sum(gains * shared, axis=1) / (-np.sort(-gains, axis=1) @ discounts))


@lru_cache(maxsize=8)
def orders(n: int, count: int, seed: int) -> NDArray[np.intp]:
    """All orders of n models, or `count` random ones where there are more than 8 models."""
    if n <= _EXACT_MODELS:
        return np.array(list(permutations(range(n))), dtype=np.intp)
    random = np.random.default_rng([seed, n])
    return np.argsort(random.random((count, n)), axis=1)
