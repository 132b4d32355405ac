"""The policy tilted by a reward: p'(v) is p(v) exp(weight * r(text so far + v)), made to add up to 1.

The reward is known for the policy's likeliest tokens and for the text's own. What is left of the vocabulary takes their
mean reward, weighted by probability, so that a weight of 0 leaves the policy as it is; and as the weight grows, the
log-probability of a token over the weight tends to its regret: its reward less the best among the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from palate.evaluate import Floats


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


def regret(log_probabilities: Floats, rewards: Floats, own: Sequence[int]) -> Floats:
    """Each own token's reward less the best of its candidates: what remains of the tilted policy as weights grow."""
    best = np.where(np.isneginf(log_probabilities), -np.inf, rewards).max(axis=1)
    return np.asarray(rewards[np.arange(len(own)), own] - best)
