"""Does one number predict another? Predictors against outcomes over a zoo of models, and predictors against each other.

A predictor is what a benchmark says of each model, an outcome what happens downstream with it. See docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from palate.stats._association import (
    FEWEST_MODELS,
    LEAST_RELIABILITY,
    Coefficient,
    Spread,
    associate,
    detectable,
)
from palate.stats._coefficients import COEFFICIENTS, pearson
from palate.stats._intervals import Floats, false_discovery
from palate.stats._scores import Measured, Scores, measure

_SIGNIFICANT = 0.05
_EXACT_SWAPS = 12
_SWAPS = 4_999


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of models whose outcomes differ: paired over users, false discovery rate at .05 over all pairs."""

    n: int
    accuracy: float | None
    """The share that the predictor orders as the outcome does; a tie counts a half. Null without such pairs."""


class Detectable(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest coefficients that this number of models detects with power .8 at two-sided .05; null without any."""

    spearman: float | None
    pearson: float | None


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How well a predictor agrees with an outcome, over the models that have both.

    A coefficient is null with fewer than three models, or where one side is the same for all of them.
    """

    predictor: str
    outcome: str
    models: int
    pearson: Coefficient | None
    spearman: Coefficient | None
    """The coefficient to look at first: name another one before you see the numbers, or keep to this."""
    kendall: Coefficient | None
    """tau-b."""
    weighted_tau: Coefficient | None
    """Vigna's, with additive hyperbolic weights: exchanges at the top count more."""
    rbo: Coefficient | None
    """Rank-biased overlap with p = .9, extrapolated; models that tie stand at the first of their places."""
    ndcg: Coefficient | None
    """Gains n for the best of n outcomes down to 1 for the worst; models that tie share their places' discounts."""
    pairs: Pairs | None
    """Null where the outcome's users cannot be resampled."""
    brier: float | None
    """On those pairs: how far the predictor's probability of an order, from resampled users, is from the outcome's
    order. 0 is best, and one half for every pair gets .25."""
    separability: float | None
    """The share of pairs of models that the predictor tells apart, false discovery rate at .05 over all pairs."""
    detectable: Detectable


class PredictorTest(msgspec.Struct, frozen=True, kw_only=True):
    """Which of two predictors agrees better with an outcome, over the models that have all three."""

    first: str
    second: str
    outcome: str
    models: int
    difference: float | None
    """Spearman's of the first less that of the second, without the noise of users. Null with fewer than 5 models,
    where one side is the same for all of them, or where more than half of what tells models apart is noise."""
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    """The same with the false discovery rate held over all that were asked for together."""


def agreements(
    predictors: Sequence[Scores], outcomes: Sequence[Scores], *, families: Sequence[str] | None = None, seed: int = 0
) -> list[Agreement]:
    """Each predictor with each outcome. Give all that are printed: the false discovery rate is held over them.

    `families` has a name for each model. Where models come in families, such as sizes or checkpoints of one, they are
    not independent; with it, intervals and p are about new families.

    >>> found = agreements([Scores.published("A", [1, 2, 3, 4])], [Scores.published("B", [1, 2, 4, 3])])[0]
    >>> found.spearman.value, round(found.spearman.p, 3)
    (0.8, 0.333)
    """
    measured = measure([*predictors, *outcomes], seed)
    codes = None if families is None else np.unique(families, return_inverse=True)[1]
    found = []
    for predictor, x in zip(predictors, measured, strict=False):
        for outcome, y in zip(outcomes, measured[len(predictors) :], strict=True):
            has = np.isfinite(x.values) & np.isfinite(y.values)
            pair = x.only(has), y.only(has)
            pairs, brier = _pairs(*pair)
            found.append(
                Agreement(
                    predictor=predictor.name,
                    outcome=outcome.name,
                    models=int(has.sum()),
                    **associate(*pair, families=None if codes is None else codes[has], seed=seed),
                    pairs=pairs,
                    brier=brier,
                    separability=_separability(pair[0]),
                    detectable=Detectable(
                        spearman=detectable("spearman", int(has.sum())), pearson=detectable("pearson", int(has.sum()))
                    ),
                )
            )
    return adjusted(found)


def adjusted(found: Sequence[Agreement]) -> list[Agreement]:
    """The same with the false discovery rate held over just these; for those who print only some."""
    by_name = {name: with_q([getattr(one, name) for one in found]) for name in COEFFICIENTS}
    return [
        msgspec.structs.replace(one, **{name: by_name[name][place] for name in COEFFICIENTS})
        for place, one in enumerate(found)
    ]


def with_q(found: Sequence[Coefficient | None]) -> list[Coefficient | None]:
    """The same coefficients with the false discovery rate held over those that are there."""
    left = iter(false_discovery([one.p for one in found if one]))
    return [msgspec.structs.replace(one, q=next(left)) if one else None for one in found]


def _differ(distances: Floats, users: int) -> NDArray[np.bool_]:
    """Which pairs of models differ, over users and with the false discovery rate held over pairs."""
    p_values = 2 * stdtr(users - 1, -np.abs(distances))
    return np.array(false_discovery(p_values.tolist())) <= _SIGNIFICANT


def _separability(x: Measured) -> float | None:
    if x.draws is None or len(x.values) < 2:
        return None
    return float(np.mean(_differ(x.apart[0], x.users)))


def _pairs(x: Measured, y: Measured) -> tuple[Pairs | None, float | None]:
    if y.draws is None or len(y.values) < 2:
        return None, None
    differ = _differ(y.apart[0], y.users)
    if not differ.any():
        return Pairs(n=0, accuracy=None), None
    one, other = (index[differ] for index in np.triu_indices(len(x.values), k=1))
    truth = np.sign(y.values[one] - y.values[other])
    accuracy = float(np.mean((1 + truth * np.sign(x.values[one] - x.values[other])) / 2))
    brier = None if x.draws is None else float(np.mean((x.apart[1][differ] - (truth > 0)) ** 2))
    return Pairs(n=int(differ.sum()), accuracy=accuracy), brier


def compare_predictors(
    predictors: Sequence[Scores], outcomes: Sequence[Scores], *, families: Sequence[str] | None = None, seed: int = 0
) -> list[PredictorTest]:
    """Each two predictors with each outcome: do they agree with it equally well?

    Both correlations rest on the same models, so their difference varies less than two intervals suggest. If they were
    equally good, it would not matter which rank of a model comes from which: p is the share of random swaps, of
    models or of whole families, that give a difference as large, with and without the noise of users. The interval is
    Zou's (2007), from the intervals of the two and the correlation between them; where p is near .05 the two may
    disagree.
    """
    measured = measure([*predictors, *outcomes], seed)
    codes = None if families is None else np.unique(families, return_inverse=True)[1]
    found = []
    for outcome, z in zip(outcomes, measured[len(predictors) :], strict=True):
        for first, second in combinations(range(len(predictors)), 2):
            three = measured[first], measured[second], z
            has = np.asarray(np.isfinite([one.values for one in three]).all(axis=0))
            x, y, outcome_of_both = (one.only(has) for one in three)
            drawn_whole = None if codes is None else codes[has]
            difference, low, high, p = predictor_difference(x, y, outcome_of_both, drawn_whole, seed)
            found.append(
                PredictorTest(
                    first=predictors[first].name,
                    second=predictors[second].name,
                    outcome=outcome.name,
                    models=int(has.sum()),
                    difference=difference,
                    low=low,
                    high=high,
                    p=p,
                    q=None,
                )
            )
    left = iter(false_discovery([one.p for one in found if one.p is not None]))
    return [one if one.p is None else msgspec.structs.replace(one, q=next(left)) for one in found]


def predictor_difference(
    first: Measured, second: Measured, outcome: Measured, families: NDArray[np.intp] | None, seed: int
) -> tuple[float | None, float | None, float | None, float | None]:
    """The difference of two Spearman's correlations without the noise of users, its interval and its p."""
    columns = first, second, outcome
    if len(first.values) < FEWEST_MODELS or any(np.ptp(one.values) == 0 for one in columns):
        return None, None, None, None
    if min(one.rank_reliability for one in columns) < LEAST_RELIABILITY:
        return None, None, None, None
    from scipy.stats import rankdata  # it takes half a second to import, which most commands need not wait for

    ranks = [rankdata(one.values) for one in columns]
    spreads = [Spread.of(one, outcome, families, by_rank=True) for one in columns[:2]]
    seen = [float(pearson(rank, ranks[2])) for rank in ranks[:2]]
    true = [float(spread.without_noise(np.asarray(value))) for spread, value in zip(spreads, seen, strict=True)]
    difference = true[0] - true[1]
    swaps = _swaps(len(first.values), families, seed)
    swapped = [pearson(np.where(swaps, *pair), ranks[2]) for pair in (ranks[:2], ranks[1::-1])]
    # A swapped column has some of its noise from either predictor.
    of_either = [(spreads[0].without_noise(one) + spreads[1].without_noise(one)) / 2 for one in swapped]
    # The correction has noise of its own, so a difference must be there with it and without it.
    as_far = max(
        int(np.count_nonzero(np.abs(one - other) >= abs(reached) - 1e-9))
        for (one, other), reached in ((of_either, difference), (swapped, seen[0] - seen[1]))
    )
    if difference * (seen[0] - seen[1]) < 0:  # it is not there both times if it turns round
        as_far = len(swaps)
    # Swapping nobody and swapping everybody are as far by definition.
    p = min(1.0, float(max(as_far, 2) / len(swaps) if len(swaps) != _SWAPS else (as_far + 1) / (_SWAPS + 1)))
    limits = [spread.limits("spearman", value, len(first.values)) for spread, value in zip(spreads, seen, strict=True)]
    (low, high, _), (other_low, other_high, _) = limits
    if low is None or high is None or other_low is None or other_high is None:
        return difference, None, None, p
    together = _correlation_of_correlations(seen[0], seen[1], float(pearson(*ranks[:2])))
    return (
        difference,
        max(-2.0, difference - _reach(true[0] - low, other_high - true[1], together)),
        min(2.0, difference + _reach(high - true[0], true[1] - other_low, together)),
        p,
    )


def _reach(one: float, other: float, together: float) -> float:
    """How far the difference of two estimates reaches, from how far either does (Zou 2007, equation 11)."""
    one, other = max(0.0, one), max(0.0, other)
    return float(np.sqrt(max(0.0, one**2 + other**2 - 2 * together * one * other)))


def _correlation_of_correlations(one: float, other: float, between: float) -> float:
    """Of two correlations with the same column (Olkin and Siotani 1976)."""
    length = (1 - one**2) * (1 - other**2)
    squares = one**2 + other**2 + between**2
    if length <= 0:
        return 0.0
    return float(np.clip(((between - one * other / 2) * (1 - squares) + between**3) / length, -1, 1))


def _swaps(models: int, families: NDArray[np.intp] | None, seed: int) -> NDArray[np.bool_]:
    """Whose ranks are swapped (swaps, models): all ways with up to 12 models or families, else random ones."""
    codes = np.arange(models) if families is None else np.unique(families, return_inverse=True)[1]
    count = int(codes.max()) + 1
    if count <= _EXACT_SWAPS:
        chosen = (np.arange(2**count)[:, None] >> np.arange(count)) % 2 == 1
    else:
        chosen = np.random.default_rng([seed, count]).random((_SWAPS, count)) < 0.5
    return np.asarray(chosen[:, codes])
