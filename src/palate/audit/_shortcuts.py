"""What the labels give away: length, and the place at which people saw the response."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from palate.audit._results import Lengths, Positions
from palate.evaluate import Ratings
from palate.records import Benchmark

LEAST_FOR_HABIT = 10
"""Comparisons from which a user's share of firsts says anything."""
QUARTERS = 4


def measure_lengths(ratings: Ratings) -> Lengths:
    """How often the chosen response is the longest of all, and the shortest of all."""
    return Lengths(longest=float(np.mean(ratings.longer > 0)), shortest=float(np.mean(ratings.longer < 0)))


def measure_positions(benchmark: Benchmark) -> Positions | None:
    """What people chose by where they saw it, and how much users differ in that."""
    places: list[int] = []
    chances: list[float] = []
    by_user: dict[str, list[bool]] = defaultdict(list)
    dated: list[tuple[str, bool]] = []
    for item in benchmark.comparisons:
        if item.shown is not None:
            places.append(item.shown[item.preferred])
            chances.append(1 / len(item.responses))
            by_user[item.user_id].append(places[-1] == 0)
            dated += [(item.date, places[-1] == 0)] if item.date else []
    if not places:
        return None
    habits = [float(np.mean(firsts)) for firsts in by_user.values() if len(firsts) >= LEAST_FOR_HABIT]
    lower, median, upper = (float(one) for one in np.quantile(habits, [0.1, 0.5, 0.9])) if habits else (None,) * 3
    return Positions(
        n=len(places),
        chosen=[float(share) for share in np.bincount(places) / len(places)],
        chance=float(np.mean(chances)),
        users=len(habits),
        least=LEAST_FOR_HABIT,
        lower=lower,
        median=median,
        upper=upper,
        over_time=_over_time(dated) if len(dated) == len(places) >= QUARTERS * LEAST_FOR_HABIT else None,
    )


def _over_time(dated: list[tuple[str, bool]]) -> list[float]:
    firsts = [first for _, first in sorted(dated, key=lambda one: one[0])]
    return [float(np.mean(part)) for part in np.array_split(firsts, QUARTERS)]
