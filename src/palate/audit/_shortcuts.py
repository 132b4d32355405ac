"""What the labels give away: length, and the place at which people saw the response."""

from __future__ import annotations

import numpy as np

from palate.audit._habits import length_leaning, measure_habit, position_leaning, shuffle_test
from palate.audit._results import Lengths, Positions
from palate.evaluation import Ratings
from palate.records import Benchmark

QUARTERS = 4
FEWEST_IN_QUARTER = 10


def measure_lengths(ratings: Ratings, seed: int) -> Lengths:
    """How often the chosen response is the longest of all, and the shortest of all."""
    lean = length_leaning(ratings)
    return Lengths(
        longest=float(np.mean(ratings.longer > 0)),
        shortest=float(np.mean(ratings.longer < 0)),
        habit=measure_habit(ratings, lean, seed) if len(lean.rows) else None,
    )


def measure_positions(benchmark: Benchmark, ratings: Ratings, seed: int) -> Positions | None:
    """What people chose by where they saw it, and how much users differ in that."""
    recorded = {item.id: item for item in benchmark.comparisons if item.shown is not None}
    rows = [row for row, item in enumerate(ratings.items) if item.id in recorded]
    if not rows:
        return None
    items = [recorded[ratings.items[row].id] for row in rows]
    places = [item.shown[item.preferred] for item in items if item.shown is not None]
    firsts, users = np.array(places) == 0, ratings.users[rows]
    over_time, p = None, 1.0
    if all(item.date for item in items) and len(items) >= QUARTERS * FEWEST_IN_QUARTER:
        order = sorted(range(len(items)), key=lambda place: items[place].date or "")
        parts = np.array_split(order, QUARTERS)
        over_time = [float(firsts[part].mean()) for part in parts]
        quarters = np.repeat(np.arange(QUARTERS), [len(part) for part in parts])
        p = shuffle_test(firsts[order].astype(np.float64), quarters, users[order], seed)
    return Positions(
        n=len(places),
        chosen=[float(share) for share in np.bincount(places) / len(places)],
        chance=float(np.mean([1 / len(item.responses) for item in items])),
        habit=measure_habit(ratings, position_leaning(ratings, recorded), seed),
        over_time=over_time,
        over_time_p=p,
        over_time_q=1.0,
    )
