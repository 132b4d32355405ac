"""What one measure says of each model, and how much of it is the noise of the users who were asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.stats._coefficients import spearman
from palate.stats._intervals import Floats, Resamples, Statistic, ratio

_ENOUGH_DRAWS = 400
"""Resamples of users that say how far the order of models is noise."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What one measure says of each model.

    >>> Scores("accuracy", np.array([[[3.0, 4.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]), ratio).values
    array([0.625,   nan])
    """

    name: str
    totals: Floats
    """(models, clusters, columns), summed over a cluster's items; all zero where a model has no number."""
    statistic: Statistic
    people: str = ""
    """Scores of the same people have the same clusters in the same order, and are resampled together."""

    @classmethod
    def published(cls, name: str, values: ArrayLike) -> Scores:
        """Values only, as in a table, with nan for models that have none. Users cannot be resampled.

        >>> Scores.published("PPO", [59.8, 60.4, np.nan]).values
        array([59.8, 60.4,  nan])
        """
        column = np.asarray(values, dtype=np.float64)
        has = ~np.isnan(column)
        return cls(name, np.stack([np.where(has, column, 0.0), has], axis=1)[:, None, :].astype(np.float64), ratio)

    @property
    def users(self) -> int:
        """Clusters that say anything: of people who are drawn together, a measure may have asked some only."""
        return int(np.count_nonzero(self.totals.any(axis=(0, 2))))

    @cached_property
    def values(self) -> Floats:
        """(models,); nan where a model has no number."""
        return np.asarray(self.drawn(np.ones((1, self.totals.shape[1])))[0])

    def drawn(self, weights: Floats) -> Floats:
        """(resamples, models), where weights (resamples, clusters) say how often each cluster was drawn."""
        totals = np.tensordot(weights, self.totals, axes=(1, 1))
        with np.errstate(all="ignore"):
            values = np.asarray(self.statistic(totals), dtype=np.float64)
        return np.where(self.totals.any(axis=(1, 2)) & np.isfinite(values), values, np.nan)


@dataclass(frozen=True, eq=False)
class Measured:
    """Values of models without missing ones, and the same from resampled users."""

    values: Floats
    """(models,)"""
    draws: Floats | None
    """(resamples, models), or None where users cannot be resampled."""
    people: str = ""
    users: int = 0

    def through(self, change: Floats) -> Measured:
        """The measure of other things than models: each row of `change` (things, models) says what of each model."""
        draws = None if self.draws is None else self.draws @ change.T
        return Measured(change @ self.values, draws, self.people, self.users)

    def only(self, chosen: NDArray[np.bool_]) -> Measured:
        if chosen.all():
            return self
        draws = None if self.draws is None else self.draws[:, chosen]
        return Measured(self.values[chosen], draws, self.people, self.users)

    @cached_property
    def noise(self) -> Floats | None:
        """Resampled less seen, without what all models share, which no correlation sees."""
        if self.draws is None:
            return None
        noise = self.draws - self.values
        noise = (noise - noise.mean(axis=1, keepdims=True)) * np.sqrt(self.users / (self.users - 1))
        return np.asarray(noise)

    @cached_property
    def reliability(self) -> float:
        """The part of the variance between models that is not the noise of users."""
        if self.noise is None:
            return 1.0
        spread = float(np.var(self.values) * len(self.values))
        return 1 - float(np.mean(np.sum(self.noise**2, axis=1))) / spread if spread > 0 else 0.0

    @cached_property
    def rank_reliability(self) -> float:
        """The same for the order of models, whatever the unit: from the correlation of seen and resampled orders.

        If resampling adds the noise N once more to a variance S, that correlation is the root of S / (S + N). It is
        taken from Spearman's, whose mean for n normal pairs is known (Moran 1948).
        """
        if self.draws is None:
            return 1.0
        seen = spearman(self.values[None], self.draws[:_ENOUGH_DRAWS])
        if not np.isfinite(seen).any():
            return 0.0
        n = len(self.values)
        rho = np.linspace(0, 1, 1001)
        expected = 6 / (np.pi * (n + 1)) * (np.arcsin(rho) + (n - 2) * np.arcsin(rho / 2))
        square = float(np.interp(np.nanmean(seen), expected, rho)) ** 2
        return 2 - 1 / square if square > 0 else 0.0

    def shared_noise(self, other: Measured) -> float:
        """The correlation of two measures' noise; zero between different people."""
        if not self.people or self.people != other.people or self.noise is None or other.noise is None:
            return 0.0
        length = np.sqrt(np.sum(self.noise**2) * np.sum(other.noise**2))
        return float(np.sum(self.noise * other.noise) / length) if length > 0 else 0.0

    @cached_property
    def apart(self) -> tuple[Floats, Floats]:
        """For each pair of models: how far the first is above, in standard errors over users, and how often it is."""
        assert self.draws is not None
        one, other = np.triu_indices(len(self.values), k=1)
        covariance = np.cov(self.draws, rowvar=False) * self.users / (self.users - 1)
        spread = np.diag(covariance)
        errors = np.sqrt(np.maximum(0.0, spread[one] + spread[other] - 2 * covariance[one, other]))
        gaps = self.values[one] - self.values[other]
        with np.errstate(all="ignore"):
            distances = np.where(errors > 1e-12 * np.abs(gaps).max(initial=0.0), gaps / errors, np.sign(gaps) * np.inf)
        above = np.zeros(len(one))
        for i in range(len(self.values) - 1):
            rest = self.draws[:, i + 1 :]
            mine = self.draws[:, i, None]
            above[one == i] = np.mean(mine > rest, axis=0) + np.mean(mine == rest, axis=0) / 2
        return np.where(gaps == 0, 0.0, distances), above


def measure(scores: Sequence[Scores], seed: int, n_resamples: int = 2_000) -> list[Measured]:
    """Values and resampled values of each, over all models. The same people are drawn together."""
    people: dict[str, int] = {}
    measured = []
    for place, score in enumerate(scores):
        if len(score.values) != len(scores[0].values):
            raise ValueError(f"{score.name} is about {len(score.values)} models, {scores[0].name} about another number")
        clusters = score.totals.shape[1]
        if people.setdefault(score.people or f"\0{place}", clusters) != clusters:
            raise ValueError(f"{score.name} has {clusters} clusters, others of {score.people!r} another number")
        draws = None
        if score.users > 1:
            stream = list(people).index(score.people or f"\0{place}")
            state = int(np.random.SeedSequence([seed, stream]).generate_state(1)[0])
            resamples = Resamples(clusters, seed=state, n_resamples=n_resamples)
            draws = np.concatenate([score.drawn(weights) for weights in resamples])
            draws = np.where(np.isnan(draws), score.values, draws)  # nobody was drawn who judged this model
        measured.append(Measured(score.values, draws, score.people, score.users))
    return measured
