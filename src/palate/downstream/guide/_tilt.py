"""The policy tilted by a reward: p'(v) is p(v) exp(weight * r(text so far + v)), made to add up to 1.

The reward is known for the policy's likeliest tokens and for the text's own. What is left of the vocabulary takes their
mean reward, weighted by probability, so that a weight of 0 leaves the policy as it is; and as the weight grows, the
log-probability of a token over the weight tends to its regret: its reward less the best among the candidates. What
does not grow with the weight decides where regrets are level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from palate.stats import Floats


def tilted(log_probabilities: Floats, rewards: Floats, own: Sequence[int], weight: float) -> Floats:
    """The log-probability of each place's own token under the tilted policy.

    Candidates stand in rows, a row for each place of the text; what fills up a row has a log-probability of minus
    infinity. `own` says which of them the text has.

    >>> halves = np.log([[0.5, 0.25]])
    >>> [float(tilted(halves, np.array([[1.0, 0.0]]), [0], weight)[0].round(3)) for weight in (0, 1)]
    [-0.693, -0.433]
    """
    places = np.arange(len(own))
    known = np.exp(log_probabilities)
    mass = known.sum(axis=1)
    mean = (known * rewards).sum(axis=1) / mass
    with np.errstate(divide="ignore"):
        rest = np.log(np.clip(1 - mass, 0, None))
    scores = log_probabilities + weight * rewards
    total = logsumexp(np.column_stack([scores, rest + weight * mean]), axis=1)
    return np.asarray(scores[places, own] - total)


def limit(log_probabilities: Floats, rewards: Floats, own: Sequence[int]) -> tuple[Floats, Floats]:
    """What the log-probability of each own token tends to: weight times the first, and the second.

    The first is its regret. The second decides where regrets are level: how likely the token is among the best.

    >>> halves = np.log([[0.5, 0.25]])
    >>> [float(part[0].round(3)) for part in limit(halves, np.array([[1.0, 0.0]]), [1])]
    [-1.0, -0.693]
    """
    places = np.arange(len(own))
    there = ~np.isneginf(log_probabilities)
    best = np.where(there, rewards, -np.inf).max(axis=1)
    at_best = there & (rewards == best[:, None])
    shared = logsumexp(np.where(at_best, log_probabilities, -np.inf), axis=1)
    # Where all candidates are level, so is the rest of the vocabulary, which takes their mean: the policy itself.
    shared = np.where(at_best.sum(axis=1) == there.sum(axis=1), 0.0, shared)
    return np.asarray(rewards[places, own] - best), np.asarray(log_probabilities[places, own] - shared)
