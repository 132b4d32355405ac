"""Ranks that a paired test over users supports, and how far they survive on half of the users."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from palate.stats import Floats, Units, all_pairs, cluster_totals, false_discovery

CLEAR = 0.05
"""The false discovery rate below which one model counts as better than another."""
FEWEST_USERS = 10
"""From fewer independent users, models are not ranked."""
SPLITS = 200
"""How often the users are split into halves."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model stands in a table."""

    rank: int | None
    """One more than the number of models that are clearly better; absent where there are too few users."""
    better: int
    """How many models it is clearly better than."""
    first: int
    """The best place that it takes on half of the users, but for the luckiest twentieth of the halves."""
    last: int
    """The worst place, but for the unluckiest twentieth."""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks of a table."""

    ranks: list[Rank]
    users: int
    """Independent users or couples of users."""
    leader_stays: float | None
    """How often the leader on one half of the users also leads on the other half."""
    agreement: float | None
    """The mean rank correlation between the orders on the two halves."""


def rank_models(
    values: Floats, clusters: NDArray[np.intp], units: Units | None, variants: Sequence[int], seed: int
) -> Ranking:
    """Rank the rows of `values` (models, items; nan is unscored).

    `variants` says how many variants of each model were tried. The best of several is better by luck alone, so where
    such a model is ahead, p counts as many times (Bonferroni). Then the false discovery rate is held over all pairs.
    """
    clusters = np.unique(clusters, return_inverse=True)[1]
    users = len(np.unique(clusters))
    clearly_better = np.zeros((len(values), len(values)), dtype=bool)
    if users >= FEWEST_USERS and len(values) > 1:
        found = all_pairs(values, clusters, units)
        tried = np.asarray(variants, dtype=float)
        ahead = np.where(found.difference > 0, tried[:, None], tried[None, :])
        upper = np.triu_indices(len(values), k=1)
        tested = found.difference[upper] != 0
        q = np.ones(len(upper[0]))
        q[tested] = false_discovery(np.minimum(1.0, (found.p * ahead)[upper][tested]).tolist())
        clear = np.zeros_like(clearly_better)
        clear[upper] = q < CLEAR
        clearly_better = (clear | clear.T) & (found.difference > 0)
    first, last, leader_stays, agreement = _halves(values, clusters, users, seed)
    ranks = [
        Rank(
            rank=int(clearly_better[:, row].sum()) + 1 if users >= FEWEST_USERS else None,
            better=int(clearly_better[row].sum()),
            first=int(first[row]),
            last=int(last[row]),
        )
        for row in range(len(values))
    ]
    return Ranking(ranks=ranks, users=users, leader_stays=leader_stays, agreement=agreement)


def _halves(
    values: Floats, clusters: NDArray[np.intp], users: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float | None, float | None]:
    """Best and worst place of each model over halves of the users, and how far two halves agree."""
    if users < 2 or len(values) < 2:
        return np.ones(len(values)), np.full(len(values), float(len(values))), None, None
    scored = ~np.isnan(values)
    credit = cluster_totals(np.where(scored, values, 0.0).T, clusters, users)
    counts = cluster_totals(scored.astype(float).T, clusters, users)
    random = np.random.default_rng(seed)
    half = np.argsort(random.random((SPLITS, users)), axis=1) < users // 2
    places = []
    for members in (half.astype(float), (~half).astype(float)):
        with np.errstate(invalid="ignore", divide="ignore"):
            accuracy = np.nan_to_num((members @ credit) / (members @ counts), nan=-1.0)
        places.append(stats.rankdata(-accuracy, method="min", axis=1))
    both = np.concatenate(places)
    first, last = np.quantile(both, [0.05, 0.95], axis=0, method="nearest")
    # Of several leaders with the same accuracy, each counts its share.
    leads = [place == 1 for place in places]
    shared = (leads[0] & leads[1]).sum(axis=1) / np.maximum(leads[0].sum(axis=1), leads[1].sum(axis=1))
    centred = [stats.rankdata(place, axis=1) - (len(values) + 1) / 2 for place in places]
    norms = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    products = (centred[0] * centred[1]).sum(axis=1)
    agreement = float(np.mean(products[norms > 0] / norms[norms > 0])) if (norms > 0).any() else None
    return first, last, float(shared.mean()), agreement
