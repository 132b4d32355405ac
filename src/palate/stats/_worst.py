"""The users who are served worst, without taking bad luck for bad service.

Whoever is picked for a low accuracy had bad luck as well, so the accuracy that they were picked by is too low: of
users who are all served alike, the worst tenth looks far worse than the rest. Here each user's items are parted into
two halves at random. The tenth is picked on one half and measured on the other, and the other way round, over many
partings. Where all users are alike, that is their common accuracy. Where they differ, a half of few items picks the
wrong users now and then, so the true worst tenth may be served worse than this says, and not better.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from palate.stats._clusters import codes
from palate.stats._intervals import Floats

PARTINGS = 20
FEWEST_ITEMS = 4
"""A user with fewer scored items is left out."""
FEWEST_USERS = 50
"""With fewer users, a tenth is fewer than five, and would say more of them than of the model."""


class WorstTenth(msgspec.Struct, frozen=True, kw_only=True):
    """Mean accuracy of the tenth of users served worst, picked on half of their items and measured on the others."""

    accuracy: float
    low: float
    high: float
    """The 95% interval over the users of the tenth in one parting, which is wider than that of the mean over all."""
    everybody: float
    """The same mean over all users who were counted."""
    users: int
    """Who were counted: those with enough scored items."""


class Halves:
    """The partings of items, the same for all models and views; items of a user with one unit stay together."""

    def __init__(self, users: NDArray[np.intp], units: Iterable[object], seed: int = 0) -> None:
        """`users` are codes; `units` are names, which need to differ between items of one user only."""
        self._users = users
        self._unit = codes(zip(users.tolist(), units, strict=True))
        owner = users[np.unique(self._unit, return_index=True)[1]]
        counts = np.bincount(owner)
        first = np.cumsum(counts) - counts
        draw = np.random.default_rng([seed, 2])
        self._halves = np.empty((PARTINGS, len(owner)), np.int8)
        for half in self._halves:
            order = np.lexsort((draw.random(len(owner)), owner))
            half[order] = (
                np.arange(len(owner)) - first[owner[order]] + draw.integers(2, size=len(counts))[owner[order]]
            ) % 2
        self._luck = draw.random((PARTINGS, 2, len(counts)))
        """Decides between users with the same accuracy."""

    def worst_tenth(self, credits: Floats) -> WorstTenth | None:
        """Of the users with enough scored items; None where they are too few."""
        scored = ~np.isnan(credits)
        size = self._luck.shape[2]
        enough = np.bincount(self._users[scored], minlength=size) >= FEWEST_ITEMS
        values, errors, means, counted = [], [], [], []
        for halves, luck in zip(self._halves, self._luck, strict=True):
            place = 2 * self._users[scored] + halves[self._unit[scored]]
            counts = np.bincount(place, minlength=2 * size).reshape(-1, 2)
            sums = np.bincount(place, weights=credits[scored], minlength=2 * size).reshape(-1, 2)
            there = enough & (counts > 0).all(axis=1)
            if there.sum() < FEWEST_USERS:
                return None
            own = sums[there] / counts[there]
            for side in (0, 1):
                order = np.lexsort((luck[side][there], own[:, side]))
                tenth = own[order[: len(own) // 10], 1 - side]
                values.append(tenth.mean())
                errors.append(stdtrit(len(tenth) - 1, 0.975) * tenth.std(ddof=1) / np.sqrt(len(tenth)))
            means.append(own.mean())
            counted.append(len(own))
        value, reach = float(np.mean(values)), float(np.mean(errors))
        return WorstTenth(
            accuracy=value,
            low=max(0.0, value - reach),
            high=min(1.0, value + reach),
            everybody=float(np.mean(means)),
            users=min(counted),
        )
