"""Which pair to show next: the one whose answer tells most about this person's taste.

A person's model is a Bayesian logistic regression on the differences of two responses' features, with a normal
posterior by Laplace's approximation. The information of a pair is what its answer is expected to tell about the
weights (Houlsby et al. 2011), the entropy of the answer less the entropy that is left when the weights are known:

    I(pair) = H(E p) - E H(p),    p = 1 / (1 + exp(-f)),  f normal under the posterior.

The next pair is drawn with a probability that grows with its information, mixed with a uniform draw, so that every
pair can come. The probability is recorded: pairs that are hard to predict come more often, so the plain accuracy of any
model on such answers is biased, and only a weighted one says what it would be on all pairs (Farquhar et al. 2021).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from palate.collect._records import Answer, Item
from palate.engine import load_encoder
from palate.records import PalateError
from palate.stats import Floats

FEATURES = "traits"
PRECISION = 0.25
"""Of the normal prior on weights, for features whose columns together weigh as much as one."""
EPSILON = 0.1
"""The share of uniform draws; also the bound on weights: none exceeds its inverse by much."""
SHARPNESS = 4.0
"""The power of the information that the probability of a pair is proportional to (Kirsch et al. 2023)."""
FARTHEST = 4.0
"""Standard deviations beyond which a feature is no more extreme."""
_STEPS = 30
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


class PairFeatures(NamedTuple):
    """For each pair, the features of its first response less those of its second."""

    ids: tuple[str, ...]
    differences: Floats

    def rows(self, ids: Sequence[str]) -> Floats:
        """The differences of some of the pairs, in their order."""
        places = {id: place for place, id in enumerate(self.ids)}
        return np.asarray(self.differences[np.array([places[id] for id in ids], dtype=np.intp)])


class Posterior(NamedTuple):
    """What is known of a person's weights."""

    mean: Floats
    covariance: Floats


class Chosen(msgspec.Struct, frozen=True):
    """The pair to show, and how likely it was to be drawn."""

    item: str
    probability: float


def pair_features(items: Sequence[Item], features: str = FEATURES) -> PairFeatures:
    """Features of every pair: encoders side by side, as in `traits` or `minilm+traits`, standardised over all texts."""
    pairs = [item for item in items if item.check is None]
    wrong = [item.id for item in pairs if len(item.responses) != 2]
    if wrong:
        raise PalateError(f"active choice takes pairs, and {wrong[0]!r} has more than two responses; choose at random")
    if not pairs:
        raise PalateError("active choice needs items to choose from")
    texts = [text for item in pairs for text in item.responses]
    prompts = [item.prompt for item in pairs for _ in item.responses]
    blocks = []
    for name in features.split("+"):
        raw = np.asarray(load_encoder(name).encode(texts, contexts=prompts), dtype=np.float64).reshape(len(texts), -1)
        spread = raw.std(axis=0)
        standard = np.divide(raw - raw.mean(axis=0), spread, out=np.zeros_like(raw), where=spread > 1e-9)
        blocks.append(standard.clip(-FARTHEST, FARTHEST) / np.sqrt(raw.shape[1]))
    rows = np.concatenate(blocks, axis=1)
    return PairFeatures(tuple(item.id for item in pairs), rows[0::2] - rows[1::2])


def fit(differences: Floats, first: ArrayLike, precision: float = PRECISION) -> Posterior:
    """The posterior from pairs and how far the first response was taken: 1, 0, or 0.5 for a tie.

    >>> posterior = fit(np.array([[1.0], [1.0], [-1.0]]), [1, 1, 0])
    >>> bool(posterior.mean[0] > 0)
    True
    """
    taken = np.asarray(first, dtype=np.float64)
    prior = precision * np.eye(differences.shape[1])
    weights = np.zeros(differences.shape[1])
    hessian = prior
    for _ in range(_STEPS):
        chance = _logistic(differences @ weights)
        gradient = differences.T @ (taken - chance) - prior @ weights
        hessian = prior + (differences * (chance * (1 - chance))[:, None]).T @ differences
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if float(np.abs(step).max(initial=0.0)) < 1e-8:
            break
    return Posterior(weights, np.asarray(np.linalg.inv(hessian), dtype=np.float64))


def _logistic(values: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(values / 2)))


def information(posterior: Posterior, differences: Floats) -> Floats:
    """What the answer to each pair is expected to tell about the weights, in nats; by quadrature, never below 0."""
    mean = differences @ posterior.mean
    spread = np.sqrt(np.maximum(0.0, np.einsum("ij,jk,ik->i", differences, posterior.covariance, differences)))
    chances = _logistic(mean[:, None] + spread[:, None] * _NODES)
    weights = _WEIGHTS / _WEIGHTS.sum()
    return np.asarray(np.maximum(0.0, _entropy(chances @ weights) - _entropy(chances) @ weights))


def _entropy(chances: Floats) -> Floats:
    inside = chances.clip(1e-12, 1 - 1e-12)
    return np.asarray(-(inside * np.log(inside) + (1 - inside) * np.log(1 - inside)))


def draw_probabilities(told: Floats, *, epsilon: float = EPSILON, sharpness: float = SHARPNESS) -> Floats:
    """How likely each pair is to be next: proportional to a power of its information, mixed with a uniform draw.

    >>> draw_probabilities(np.array([0.0, 0.1]), epsilon=0.2)
    array([0.1, 0.9])
    """
    uniform = np.full(len(told), 1 / len(told))
    if told.max(initial=0.0) <= 0:
        return uniform
    drawn = (told / told.max()) ** sharpness
    return np.asarray(epsilon * uniform + (1 - epsilon) * drawn / drawn.sum())


def choose_next(
    features: PairFeatures,
    answers: Sequence[Answer],
    remaining: Sequence[str],
    *,
    seed: int | str = 0,
    epsilon: float = EPSILON,
    precision: float = PRECISION,
) -> Chosen:
    """The next of the remaining pairs for a person who gave these answers.

    The same answers, pairs and seed give the same choice, so that reloading a page changes nothing.
    """
    if not remaining:
        raise PalateError("there is no pair left to choose from")
    if not 0 < epsilon <= 1:
        raise PalateError(f"epsilon={epsilon:g}: give a share above 0, so that every pair can come, and at most 1")
    known = set(features.ids)
    told = [answer for answer in answers if answer.item in known and (answer.choice is not None or answer.tie)]
    first = [0.5 if answer.choice is None else 1.0 - answer.choice for answer in told]
    posterior = fit(features.rows([answer.item for answer in told]), first, precision)
    ids = sorted(remaining)
    chances = draw_probabilities(information(posterior, features.rows(ids)), epsilon=epsilon)
    place = random.Random(f"next {seed} {len(told)}").choices(range(len(ids)), weights=chances.tolist())[0]
    return Chosen(ids[place], float(chances[place]))


def correction_weights(probabilities: Sequence[float], pool: int) -> Floats:
    """What each answer counts, in the order in which the pairs were drawn, so that a mean is that over the whole pool.

    `pool` is how many pairs there were before the first draw. The levelled unbiased risk estimator of Farquhar, Gal and
    Rainforth (2021): with every pair drawn the weights are 1, and with uniform draws they are 1 as well.

    >>> correction_weights([1 / 4, 1 / 3, 1 / 2, 1], 4)
    array([1., 1., 1., 1.])
    """
    drawn = len(probabilities)
    if drawn > pool or any(not 0 < chance <= 1 for chance in probabilities):
        raise ValueError(f"{drawn} draws from {pool} pairs, each with a probability above 0 and at most 1")
    order = np.arange(1, drawn + 1)
    chances = np.asarray(probabilities, dtype=np.float64)
    if drawn == pool:
        return np.ones(drawn)
    return np.asarray(1 + (pool - drawn) / (pool - order) * (1 / ((pool - order + 1) * chances) - 1))


class ActiveAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """One model on answers to actively chosen pairs."""

    raw: float
    """The plain share, which is biased: hard pairs come more often."""
    weighted: float
    """With the recorded probabilities: what it would be over all pairs."""
    answers: int
    effective: float
    """So many equally weighted answers would be worth as much (Kish)."""


def weighted_accuracy(right: Mapping[str, float], answers: Sequence[Answer], pool: int) -> ActiveAccuracy:
    """Accuracy of a model on one person's actively chosen pairs, raw and weighted; `right` is its credit by item."""
    drawn = sorted(
        (answer for answer in answers if answer.probability is not None and answer.repeat == 0),
        key=lambda answer: answer.sequence,
    )
    if not drawn:
        raise PalateError("no answer records with which probability its pair was drawn")
    weights = correction_weights([answer.probability or 0.0 for answer in drawn], pool)
    credit = np.array([right[answer.item] for answer in drawn])
    return ActiveAccuracy(
        raw=float(credit.mean()),
        weighted=float((weights * credit).mean()),
        answers=len(drawn),
        effective=float(weights.sum() ** 2 / (weights**2).sum()),
    )
