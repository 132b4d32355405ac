"""Do people differ in a habit by more than noise? Who departs from the others towards the longer response, or the
first, on some items and does so on other items as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from palate.audit._benchmark_results import Habit, Lengths, PositionHabits
from palate.audit._conflicts import pair_codes
from palate.evaluation import RatedItem, Ratings
from palate.records import Benchmark, Comparison
from palate.stats import Floats, Quantity, Resamples, intervals, ratio

SHUFFLES = 1_999
_CHUNK = 2**21
"""Shuffled judgements held at once."""
_LARGE = 300
"""Judgements of a stratum from which it is cheaper to hold all of its users than all pairs of them."""

Codes = NDArray[np.intp]
QUARTERS = 4
FEWEST_IN_QUARTER = 10


class Lean(msgspec.Struct, frozen=True):
    """Judgements that could have gone one way or the other, each person's on each pair once."""

    taken: Floats
    """1 where the person took the longer (or the first), else 0."""
    rows: Codes
    """Which item of the ratings each one is."""
    strata: Codes
    """The same for judgements that would be alike if nobody had a habit: those of one pair, where two people share
    it; all others with as many responses, else."""
    within_pairs: int
    """Judgements that are compared with others of the same pair."""


def length_leaning(ratings: Ratings) -> Lean:
    """Who took the longest response. Items without one longest response tell nothing."""
    pairs = pair_codes(ratings.items)

    def told() -> Iterator[tuple[int, bool, object]]:
        for row, item in enumerate(ratings.items):
            lengths = [len(text) for text in item.responses]
            if lengths.count(max(lengths)) == 1:
                yield row, lengths[item.preferred] == max(lengths), pairs[row]

    return _leaning(ratings.items, pairs, told())


def position_leaning(ratings: Ratings, recorded: Mapping[str, Comparison]) -> Lean:
    """Who took what they saw first; only people who saw the same first are compared within a pair."""
    pairs = pair_codes(ratings.items)

    def told() -> Iterator[tuple[int, bool, object]]:
        for row, item in enumerate(ratings.items):
            judged = recorded.get(item.id)
            if judged is not None and judged.shown is not None:
                first = judged.responses[judged.shown.index(min(judged.shown))]
                yield row, judged.chosen == first, (pairs[row], first)

    return _leaning(ratings.items, pairs, told())


def _leaning(items: Sequence[RatedItem], pairs: Sequence[int], told: Iterator[tuple[int, bool, object]]) -> Lean:
    judged: set[tuple[str, int]] = set()
    kept: list[tuple[int, bool, object]] = []
    for row, taken, alike in told:
        # a second judgement of the same pair says nothing of a habit that holds across pairs
        if (items[row].user_id, pairs[row]) not in judged:
            judged.add((items[row].user_id, pairs[row]))
            kept.append((row, taken, alike))
    sizes: dict[object, int] = {}
    for _, _, alike in kept:
        sizes[alike] = sizes.get(alike, 0) + 1
    codes: dict[object, int] = {}
    strata = [
        codes.setdefault(alike if sizes[alike] > 1 else f"{len(items[row].responses)} responses", len(codes))
        for row, _, alike in kept
    ]
    return Lean(
        np.array([taken for _, taken, _ in kept], dtype=np.float64),
        np.array([row for row, _, _ in kept], dtype=np.intp),
        np.array(strata, dtype=np.intp),
        sum(sizes[alike] > 1 for _, _, alike in kept),
    )


def measure_habit(ratings: Ratings, lean: Lean, seed: int, shuffles: int = SHUFFLES) -> Habit | None:
    """How much people differ in what they lean to, beyond what chance and the items make; None for lack of data.

    The standard deviation between people is estimated by moments, like a component of variance: what a person's
    departures from the others add up to, less what independent choices would. Only products of departures on
    different items remain, so that noise, which does not carry over, has no part in it.
    """
    users = ratings.users[lean.rows]
    excess, expected = _components(lean.taken, users, lean.strata)
    if expected.sum() <= 0:
        return None
    columns = np.zeros((2, len(ratings.items)))
    first = np.unique(users, return_index=True)[1]
    columns[:, lean.rows[first]] = excess[users[first]], expected[users[first]]
    totals = ratings.totals(*columns)
    estimate = intervals([Quantity(totals, ratio, (-np.inf, 1.0))], Resamples(ratings.n_clusters, seed=seed))[0]
    return Habit(
        n=len(users),
        users=len(first),
        share=float(lean.taken.mean()),
        within_pairs=lean.within_pairs,
        spread=_root(float(ratio(totals.sum(axis=0)))),
        low=_root(estimate.low) if estimate else None,
        high=_root(estimate.high) if estimate else None,
        p=shuffle_test(lean.taken, users, lean.strata, seed, shuffles),
        q=1.0,
    )


def _root(variance: float) -> float:
    return float(np.sqrt(max(0.0, variance)))


def _departures(taken: Floats, strata: Codes) -> Floats:
    """From the mean of the stratum."""
    sizes = np.bincount(strata)
    return np.asarray(taken - (np.bincount(strata, weights=taken) / np.maximum(sizes, 1))[strata])


def _components(taken: Floats, users: Codes, strata: Codes) -> tuple[Floats, Floats]:
    """By user: the square of their departures above that of independent choices, and what it would be on average if
    the standard deviation between people were 1; both over the number of judgements, so that no long record rules.

    With m of the k judgements of a stratum a user's departures there have the variance v (m - m²/k) by chance, where
    v is estimated within the stratum. A habit h of each user adds B h to the departures, where B = diag(n) - M and
    M holds sum over strata of m m' / k for every two users.
    """
    width = int(strata.max()) + 1
    cells, counts = np.unique(users * width + strata, return_counts=True)
    user, stratum, times = cells // width, cells % width, counts.astype(np.float64)
    number, sizes = np.bincount(user, weights=times), np.bincount(stratum, weights=times)
    by_chance = times - times**2 / sizes[stratum]
    departures = _departures(taken, strata)
    degrees = np.maximum(sizes - 1, 1)
    noise = np.bincount(strata, weights=departures**2) / degrees
    habits = (sizes - np.bincount(stratum, weights=times**2 / sizes[stratum])) / degrees
    excess = np.bincount(users, weights=departures) ** 2 - np.bincount(user, weights=by_chance * noise[stratum])
    shared = csr_array((times / np.sqrt(sizes[stratum]), (user, stratum)), shape=(len(number), width))
    expected = (
        number**2
        - 2 * number * np.bincount(user, weights=times**2 / sizes[stratum])
        + _squared_rows(shared, sizes > _LARGE)
        - np.bincount(user, weights=by_chance * habits[stratum])
    )
    return excess / np.maximum(number, 1), expected / np.maximum(number, 1)


def _squared_rows(shared: csr_array, large: NDArray[np.bool_]) -> Floats:
    """By user, the sum of the squares of M = shared @ shared.T, formed only where few users share a stratum."""
    narrow, wide = shared[:, np.flatnonzero(~large)], shared[:, np.flatnonzero(large)].toarray()
    product = narrow @ narrow.T
    squares = np.asarray(product.power(2).sum(axis=1), dtype=np.float64)
    return np.asarray(
        squares + 2 * np.sum((product @ wide) * wide, axis=1) + np.sum((wide @ (wide.T @ wide)) * wide, axis=1)
    )


def shuffle_test(taken: Floats, units: Codes, strata: Codes, seed: int, shuffles: int = SHUFFLES) -> float:
    """P-value that units do not differ: how often they differ as much when judgements change places in a stratum.

    The statistic is the sum over units of the squared departures over their number, Pearson's for over-dispersion.
    """
    order = np.argsort(strata, kind="stable")
    departures, units, strata = _departures(taken, strata)[order], units[order], strata[order].astype(np.float64)
    number = np.bincount(units)
    random = np.random.default_rng(seed)

    def statistic(rows: Floats) -> Floats:
        places = units + len(number) * np.arange(len(rows))[:, None]
        sums = np.bincount(places.ravel(), weights=rows.ravel(), minlength=len(rows) * len(number))
        return np.asarray((sums.reshape(len(rows), -1) ** 2 / np.maximum(number, 1)).sum(axis=1))

    observed = float(statistic(departures[None, :])[0])
    at_once, as_large = max(1, _CHUNK // len(units)), 0
    for start in range(0, shuffles, at_once):
        keys = random.random((min(at_once, shuffles - start), len(units))) + strata
        drawn = statistic(departures[np.argsort(keys, axis=1)])
        as_large += int(np.count_nonzero(drawn >= observed * (1 - 1e-9) - 1e-12))
    return (as_large + 1) / (shuffles + 1)


def measure_lengths(ratings: Ratings, seed: int) -> Lengths:
    """How often the chosen response is the longest of all, and the shortest of all."""
    lean = length_leaning(ratings)
    return Lengths(
        longest=float(np.mean(ratings.longer > 0)),
        shortest=float(np.mean(ratings.longer < 0)),
        habit=measure_habit(ratings, lean, seed) if len(lean.rows) else None,
    )


def measure_positions(benchmark: Benchmark, ratings: Ratings, seed: int) -> PositionHabits | None:
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
    return PositionHabits(
        n=len(places),
        chosen=[float(share) for share in np.bincount(places) / len(places)],
        chance=float(np.mean([1 / len(item.responses) for item in items])),
        habit=measure_habit(ratings, position_leaning(ratings, recorded), seed),
        over_time=over_time,
        over_time_p=p,
        over_time_q=1.0,
    )
