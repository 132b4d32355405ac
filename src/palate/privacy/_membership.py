"""Can one tell from a model whose choices it was trained on? The likelihood-ratio attack, on users.

After Carlini et al. (2022), with users in the place of examples. Shadow models are trained on random halves of the
users. For each user, the mean log-likelihood of their choices is taken to be normal, with one mean among the models
that were trained on them and another among those that were not; the attack on one model is the ratio of the two,
fitted on all the others. The attacker is strong: they hold the user's choices and can train models like the one at
hand. An attack that fails proves nothing; one that succeeds is a leak.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]
RESAMPLES = 200
RATES = (0.01, 0.05)
"""False-positive rates: few are accused wrongly, so that an accusation means something."""


class Estimated(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 95% interval over users and models, and the most that the model's privacy allows."""

    value: float
    low: float
    high: float
    allowed: float | None = None


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """How well members are told from others; an area of one half is guessing."""

    attack: str
    """`shared part`: from what it predicts of the user's choices; `stored states`: from what the file keeps."""
    users: int
    shadows: int
    area: Estimated
    """Under the curve of true against false positives."""
    found_at_1: Estimated
    """Share of members who are found when one in a hundred others is accused."""
    found_at_5: Estimated


def likelihood_ratios(statistic: Floats, member: Truth) -> Floats:
    """(models, users): how much better each statistic fits the models with the user than those without.

    Models come in couples, each trained on those users that the other was not. A couple is left out of the fit for
    both of its models: were only the model itself left out, its own side would be fitted on one model fewer and
    so seem further away, and an attack on models that tell nothing would come out below one half. With few models
    a variance for each user would be mostly noise, so there is one for all users on either side.
    """
    found = np.zeros_like(statistic)
    for sign, side in ((1, member), (-1, ~member)):
        mean, variance = _without_couple(statistic, side)
        found += sign * (-((statistic - mean) ** 2) / (2 * variance) - math.log(variance) / 2)
    return found


def _without_couple(statistic: Floats, side: Truth) -> tuple[Floats, float]:
    """For each model and user, the mean over the models of this side in other couples; and the variance within it."""
    partner = np.arange(len(statistic)) ^ 1
    count = side.sum(axis=0)
    total = np.where(side, statistic, 0.0).sum(axis=0)
    mean = (total - np.where(side, statistic, statistic[partner])) / np.maximum(count - 1, 1)
    centred = np.where(side, statistic - total / np.maximum(count, 1), 0.0)
    variance = float((centred**2).sum() / max(int((count - 1).sum()), 1))
    return mean, max(variance, 1e-18)


def measure(attack: str, scores: Floats, member: Truth, seed: int, privacy: tuple[float, float] | None = None) -> Leak:
    """The leak with intervals that resample users, and couples of models: their luck is shared by all users.

    `privacy` is epsilon and delta, where the models have them.
    """
    draw = np.random.default_rng(seed)
    users = scores.shape[1]
    values = _numbers(scores, member)
    resampled = []
    for _ in range(RESAMPLES):
        chosen = draw.integers(users, size=users)
        couples = draw.integers(len(scores) // 2, size=len(scores) // 2)
        models = np.concatenate([2 * couples, 2 * couples + 1])
        resampled.append(_numbers(scores[np.ix_(models, chosen)], member[np.ix_(models, chosen)]))
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    allowed = (
        [None, None, None] if privacy is None else [allowed_area(*privacy), *(allowed_rate(x, *privacy) for x in RATES)]
    )
    area, one, five = (
        Estimated(value=values[place], low=float(low[place]), high=float(high[place]), allowed=allowed[place])
        for place in range(3)
    )
    return Leak(attack=attack, users=users, shadows=len(scores), area=area, found_at_1=one, found_at_5=five)


def _numbers(scores: Floats, member: Truth) -> tuple[float, float, float]:
    ins, outs = scores[member], scores[~member]
    ranks = rankdata(np.concatenate([ins, outs]))[: len(ins)]
    area = (ranks.sum() - len(ins) * (len(ins) + 1) / 2) / (len(ins) * len(outs))
    found = [float((ins > np.quantile(outs, 1 - rate, method="higher")).mean()) for rate in RATES]
    return float(area), found[0], found[1]


def allowed_rate(false_positives: float, epsilon: float, delta: float) -> float:
    """The most true positives that any attack can have on a model of (epsilon, delta) (Kairouz et al. 2015).

    >>> round(allowed_rate(0.01, 1.0, 0.0), 3)
    0.027
    """
    if epsilon > 50:
        return 1.0
    first = math.exp(epsilon) * false_positives + delta
    return min(1.0, first, 1 - math.exp(-epsilon) * (1 - delta - false_positives))


def allowed_area(epsilon: float, delta: float) -> float:
    """The largest area under the curve that goes with it.

    >>> round(allowed_area(1e-9, 0.0), 3)
    0.5
    """
    grid = np.linspace(0, 1, 20_001)
    return float(np.trapezoid([allowed_rate(float(x), epsilon, delta) for x in grid], grid))
