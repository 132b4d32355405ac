"""Intervals and tests of a coefficient between two columns of models.

The interval asks which correlations of normal variables would give what was seen: for each correlation, what samples
of as many models give is simulated once. For rank coefficients this holds whatever the units, since they see orders
alone. Where leaving out a model (or a family of models) at a time says that the coefficient varies clearly more than
it would with normal variables, the interval is stretched. The noise of users pulls coefficients towards zero;
the limits are corrected for it. benchmarks/agreement_coverage.py is the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from palate.stats._coefficients import COEFFICIENTS, coefficients, orders, pearson, spearman
from palate.stats._intervals import Floats
from palate.stats._scores import Measured

FEWEST_MODELS = 5
"""With fewer models than this there is no interval."""
LEAST_RELIABILITY = 0.5
"""No interval where more than half of the variance between models is the noise of users."""
_SLACK = 1.2
"""How much wider than normal variables say single models must vary before an interval is stretched: of few models,
what leaving one out at a time says is noisy itself."""
_PERMUTATIONS = 4_999
_FISHER = np.concatenate([[-4.0], np.linspace(-3, 3, 25), [4.0]])
"""The correlations that are simulated, on Fisher's scale; the ends stand for -1 and 1."""
_CORRELATIONS = np.concatenate([[-1.0], np.tanh(_FISHER[1:-1]), [1.0]])


class Coefficient(msgspec.Struct, frozen=True, kw_only=True):
    """How far a predictor and an outcome agree, by one coefficient."""

    value: float
    """Between the values as they are."""
    low: float | None
    """The 95% interval is for other models like these and without the noise of users, so it need not lie evenly around
    the value. Null with fewer than 5 models, or where more than half of what tells models apart is noise."""
    high: float | None
    p: float
    """Two-sided, against random orders: all of them with up to 8 models, else 4,999."""
    q: float
    """The same with the false discovery rate held over this coefficient of all that were asked for together."""
    chance: float
    """What random orders get on average."""


@lru_cache(maxsize=16)
def _simulated(n: int) -> dict[str, Floats]:
    """Each coefficient (correlations, samples) of n models, sorted, where both columns are normal."""
    samples = int(np.clip(6_400_000 / n**2, 500, 4_000))
    shared, own = np.random.default_rng(n).standard_normal((2, samples, n))
    found = [coefficients(rho * shared + np.sqrt(1 - rho**2) * own, shared) for rho in _CORRELATIONS]
    return {name: np.sort([one[name] for one in found], axis=1) for name in COEFFICIENTS}


def _of_correlation(name: str, rho: Floats, n: int) -> Floats:
    """The coefficient of normal variables with this correlation; the mean for n models where it depends on n."""
    if name == "pearson":
        return rho
    if name == "spearman":
        return np.asarray(6 / np.pi * np.arcsin(rho / 2))
    if name == "kendall":
        return np.asarray(2 / np.pi * np.arcsin(rho))
    return np.asarray(np.interp(rho, _CORRELATIONS, _simulated(n)[name].mean(axis=1)))


def _inverted(name: str, value: float, n: int, at: tuple[float, ...]) -> Floats:
    """The correlations, on Fisher's scale, where so much of the samples lies above the value; half of what is equal."""
    table = _simulated(n)[name]
    samples = table.shape[1]
    below = (np.count_nonzero(table < value - 1e-9, axis=1) + np.count_nonzero(table < value + 1e-9, axis=1)) / 2
    above = np.clip(1 - below / samples, 0.5 / samples, 1 - 0.5 / samples)
    rising = np.maximum.accumulate(ndtri(above)) + 1e-9 * np.arange(len(above))
    return np.asarray(np.interp(ndtri(at), rising, _FISHER))


def _jackknife(x: Measured, y: Measured, families: NDArray[np.intp] | None, by_rank: bool) -> tuple[float, int]:
    """The standard error of the correlation on Fisher's scale, and its degrees of freedom."""
    n = len(x.values)
    if families is None:
        kept = [np.nonzero(~np.eye(n, dtype=bool))[1].reshape(n, n - 1)]
    else:
        kept = [np.flatnonzero(families != family)[None] for family in np.unique(families)]
        kept = [some for some in kept if some.size > 1]
        if not kept:
            return 0.0, 1
    left = [(x.values[some], y.values[some]) for some in kept]
    estimates = [2 * np.sin(np.pi / 6 * spearman(*pair)) if by_rank else pearson(*pair) for pair in left]
    fisher = np.arctanh(np.clip(np.concatenate(estimates), -0.9999, 0.9999))
    fisher = fisher[np.isfinite(fisher)]
    return float(np.sqrt((len(fisher) - 1) * np.var(fisher))) if len(fisher) > 1 else 0.0, max(1, len(fisher) - 1)


@dataclass(frozen=True)
class Spread:
    """What an interval needs beside the value: how much a correlation varies over models, and the noise of users."""

    error: float
    """On Fisher's scale, from leaving out a model or a family at a time."""
    freedom: int
    of_families: bool
    reliabilities: tuple[float, float]
    shared_noise: float

    @classmethod
    def of(cls, x: Measured, y: Measured, families: NDArray[np.intp] | None, by_rank: bool) -> Spread:
        reliabilities = (x.rank_reliability, y.rank_reliability) if by_rank else (x.reliability, y.reliability)
        error, freedom = _jackknife(x, y, families, by_rank)
        return cls(error, freedom, families is not None, reliabilities, x.shared_noise(y))

    def _true(self, correlation: Floats) -> Floats:
        """Spearman's (1904) correction for attenuation, less what two measures of the same people share by noise."""
        one, other = self.reliabilities
        noise = self.shared_noise * np.sqrt(max(0.0, 1 - one) * max(0.0, 1 - other))
        return np.asarray(np.clip((correlation - noise) / np.sqrt(one * other), -1, 1))

    def without_noise(self, ranks: Floats) -> Floats:
        """Spearman's correlation of true values, from that of values with the noise of users."""
        return np.asarray(6 / np.pi * np.arcsin(self._true(2 * np.sin(np.pi / 6 * ranks)) / 2))

    def limits(self, name: str, value: float, n: int) -> tuple[float | None, float | None, float]:
        """The interval, and the p of families that are drawn whole."""
        if n < FEWEST_MODELS or min(self.reliabilities) < LEAST_RELIABILITY or self.freedom < 2:
            return None, None, 1.0
        low, middle, high = _inverted(name, value, n, (0.025, 0.5, 0.975))
        quantile, slack = (stdtrit(self.freedom, 0.975), 1.0) if self.of_families else (ndtri(0.975), _SLACK)
        width = 2 * quantile * self.error / slack
        stretch = max(1.0, width / (high - low)) if abs(middle) < _FISHER[-2] else 1.0
        low, high = middle - stretch * (middle - low), middle + stretch * (high - middle)
        towards_zero = (middle - low if middle > 0 else high - middle) / quantile
        p = float(2 * stdtr(self.freedom, -abs(middle) / towards_zero)) if towards_zero > 0 else 1.0
        ends = np.where(np.abs([low, high]) >= _FISHER[-1], np.sign([low, high]), np.tanh([low, high]))
        limits = _of_correlation(name, self._true(ends), n)
        return min(float(limits[0]), value), max(float(limits[1]), value), p


def associate(
    x: Measured,
    y: Measured,
    *,
    names: tuple[str, ...] = COEFFICIENTS,
    families: NDArray[np.intp] | None = None,
    within: NDArray[np.intp] | None = None,
    seed: int = 0,
) -> dict[str, Coefficient | None]:
    """The coefficients between two measures of the same models; None where one of them is the same for all.

    `families` are drawn whole. `within` says that each family was centred: models are then exchangeable only inside
    theirs, and there are fewer by as many models as families, less one.
    """
    models = len(x.values)
    if models < 3 or np.ptp(x.values) == 0 or np.ptp(y.values) == 0:
        return dict.fromkeys(names)
    n = models if within is None else models - int(within.max())
    seen = coefficients(x.values, y.values)
    shuffled = orders(models, _PERMUTATIONS, seed) if within is None else _orders_within(within, seed)
    random = coefficients(x.values, y.values[shuffled])
    is_sample = within is not None or len(shuffled) == _PERMUTATIONS
    spreads = {by_rank: Spread.of(x, y, families, by_rank) for by_rank in (False, True)}
    found: dict[str, Coefficient | None] = {}
    for name in names:
        value = float(seen[name][0])
        chance = float(random[name].mean()) if name in ("rbo", "ndcg") else 0.0
        as_far = np.count_nonzero(np.abs(random[name] - chance) >= abs(value - chance) - 1e-9)
        p = float((as_far + is_sample) / (len(shuffled) + is_sample))
        low, high, p_of_families = spreads[name != "pearson"].limits(name, value, n)
        p = p if families is None else max(p, p_of_families)
        found[name] = Coefficient(value=value, low=low, high=high, p=p, q=1.0, chance=chance)
    return found


def _orders_within(families: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    random = np.random.default_rng([seed, len(families)])
    keys = families + random.random((_PERMUTATIONS, len(families)))
    shuffled = np.empty(keys.shape, dtype=np.intp)
    shuffled[:, np.argsort(families, kind="stable")] = np.argsort(keys, axis=1)
    return shuffled


def detectable(name: str, n: int) -> float | None:
    """The smallest coefficient, pearson or spearman, that n models detect with power .8 at two-sided .05."""
    if n < FEWEST_MODELS:
        return None
    table = np.abs(_simulated(n)[name])
    null = np.sort(table[np.flatnonzero(_FISHER == 0)[0]])
    least = null[int(np.ceil(0.95 * len(null))) - 1]
    if np.mean(null >= least - 1e-9) > 0.05:  # coefficients of few models have steps
        above = null[null > least + 1e-9]
        least = above[0] if len(above) else np.inf
    power = np.mean(table >= least - 1e-9, axis=1)[_FISHER >= 0]
    if power.max() < 0.8:
        return None
    rho = np.tanh(np.interp(0.8, np.maximum.accumulate(power), _FISHER[_FISHER >= 0]))
    return float(_of_correlation(name, np.asarray(rho), n))
