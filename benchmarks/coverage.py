"""How often do the 95% intervals hold the truth, and how often does the test cry wolf? Simulated studies.

    python benchmarks/coverage.py                  # 1,000 studies a line, some minutes on one core
    python benchmarks/coverage.py --studies 200    # a quick look

Users differ strongly, and their number of items goes from one to some hundreds. Five kinds of study: smooth effects;
effects that few users have; heavy raters (a fifth of the users have 200 items and the others 5); studies in which
everybody judges the same 32 items, where the truth is that over new users and new items; and studies in which
everybody ranks the same four answers to each of 30 questions, where it is that over new users and new questions.
`palate` is the interval that
the reports show; `false alarms` is how often p is below .05 where the true gain is zero; `percentile` is the plain
percentile bootstrap over users; `rows` resamples items as if they were independent. 93 to 97% is what we ask of
`palate`, and 3 to 7% of false alarms.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from palate.evaluation import RatedItem
from palate.stats import Units, shared_units
from palate.stats._intervals import (
    ANYWHERE,
    GAIN,
    SHARE,
    Crossed,
    Floats,
    Quantity,
    Resamples,
    Statistic,
    bootstrap_totals,
    intervals,
    paired_differences,
    ratio,
)

CONCENTRATION = 4.0
"""Beta(4 m, 4 (1 - m)): a fifth of the variance of single answers lies between users."""
MEAN_ITEMS = 20 * np.exp(0.8**2 / 2)
SHARED_ITEMS = 32
QUESTIONS = 30
PAIRS = list(combinations("ABCD", 2))
"""What a ranking of four answers comes to."""
BATCH = 50
"""Studies bootstrapped together."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Study:
    """What was seen: totals by cluster, and how many items had which outcome."""

    totals: Floats
    """(clusters, columns)"""
    rows: Counts
    """An outcome a row: its number of items, and then what one such item adds to each total."""
    crossed: Crossed | None = None


@dataclass(frozen=True)
class Scenario:
    """A kind of study, and the true value of what it estimates."""

    name: str
    draw: Callable[[np.random.Generator, int], Study]
    truth: float
    statistic: Statistic = ratio
    within: tuple[float, float] = SHARE


def sizes(random: np.random.Generator, n: int) -> Counts:
    return np.asarray(1 + random.poisson(random.lognormal(np.log(20), 0.8, size=n)))


def users(random: np.random.Generator, n: int, mean: float) -> tuple[Floats, Counts]:
    return random.beta(CONCENTRATION * mean, CONCENTRATION * (1 - mean), size=n), sizes(random, n)


def outcomes(totals: Floats, *rows: tuple[int, ...]) -> Study:
    return Study(totals, np.array(rows, dtype=np.int64))


def shares(right: Counts, items: Counts) -> Study:
    totals = np.stack([right, items], axis=1).astype(np.float64)
    return outcomes(totals, (right.sum(), 1, 1), ((items - right).sum(), 0, 1))


def changes(mended: Counts, broken: Counts, items: Counts) -> Study:
    totals = np.stack([mended - broken, items], axis=1).astype(np.float64)
    same = (items - mended - broken).sum()
    return outcomes(totals, (mended.sum(), 1, 1), (broken.sum(), -1, 1), (same, 0, 1))


def accuracy(mean: float) -> Scenario:
    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, items = users(random, n, mean)
        return shares(random.binomial(items, accuracies), items)

    return Scenario(f"accuracy {mean:.2f}", draw, mean)


def accuracy_of_busy_users(mean: float) -> Scenario:
    """Users who are served well stay and judge more, so the truth is the mean over items."""

    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, _ = users(random, n, mean)
        items = 1 + random.poisson(random.lognormal(np.log(20), 0.8, size=n) * 2 * accuracies)
        return shares(random.binomial(items, accuracies), items)

    square = mean**2 + mean * (1 - mean) / (CONCENTRATION + 1)
    truth = (mean + 2 * MEAN_ITEMS * square) / (1 + 2 * MEAN_ITEMS * mean)
    return Scenario(f"accuracy {truth:.2f}, busy users served better", draw, truth)


def accuracy_of_couples() -> Scenario:
    """Twins want opposite things: either both are right, or exactly one of them is."""

    def draw(random: np.random.Generator, n: int) -> Study:
        both, items = users(random, n, 0.3)
        return shares(items + random.binomial(items, both), 2 * items)

    return Scenario("accuracy 0.65, couples of twins", draw, 0.65)


def gain(mean: float) -> Scenario:
    """A view that mends a fifth of the errors and breaks a twentieth of the rest, more for some users."""

    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, items = users(random, n, mean)
        right = random.binomial(items, accuracies)
        mended = random.binomial(items - right, random.beta(1, 4, size=n))
        return changes(mended, random.binomial(right, random.beta(0.5, 9.5, size=n)), items)

    truth = round(0.2 * (1 - mean) - 0.05 * mean, 6) + 0.0
    return Scenario(f"gain {truth:+.3f} over {mean:.2f}", draw, truth, within=GAIN)


def changed(random: np.random.Generator, effects: Floats, items: Counts, noise: float) -> Study:
    """Items that change for the better or the worse, by a user's own effect and by noise."""
    mended = random.binomial(items, np.clip(noise / 2 + np.maximum(effects, 0), 0, 0.9))
    worse = np.clip(noise / 2 + np.maximum(-effects, 0), 0, 0.9) / (1 - noise / 2 - np.maximum(effects, 0))
    return changes(mended, random.binomial(items - mended, np.clip(worse, 0, 1)), items)


def gain_of_few(share: float, truth: float, noise: float = 0.08) -> Scenario:
    """A few users gain 30 to 60 points; the others nothing, or what they lose makes the mean zero."""
    rest = (truth - share * 0.45) / (1 - share)

    def draw(random: np.random.Generator, n: int) -> Study:
        effects = np.where(random.random(n) < share, random.uniform(0.3, 0.6, n), rest)
        return changed(random, effects, sizes(random, n), noise)

    quiet = "" if noise else ", others all alike"
    return Scenario(f"gain {truth:+.3f}, had by {share:.0%}{quiet}", draw, truth, within=GAIN)


def gain_of_heavy_raters(kind: str) -> Scenario:
    """A fifth of the users have 200 items and the others 5."""

    def draw(random: np.random.Generator, n: int) -> Study:
        heavy = random.random(n) < 0.2
        if kind == "any user alike":
            effects = random.normal(0, 0.1, n)
        elif kind == "heavy raters gain":
            effects = np.where(heavy, 0.08, -0.02) + random.normal(0, 0.08, n)
        else:
            effects = np.where(random.random(n) < 0.1, 0.45, -0.05)
        return changed(random, effects, np.where(heavy, 200, 5), 0.12)

    truth = (0.2 * 200 * 0.08 - 0.8 * 5 * 0.02) / 44 if kind == "heavy raters gain" else 0.0
    return Scenario(f"gain {truth:+.3f}, heavy raters, {kind}", draw, truth, within=GAIN)


def judged(random: np.random.Generator, kind: str, effects: Floats) -> Floats:
    """Single items: right or wrong, or for the better or the worse."""
    drawn = random.random(effects.shape)
    if kind == "accuracy":
        return (drawn < effects).astype(np.float64)
    up, down = 0.1 + np.maximum(effects, 0), 0.1 + np.maximum(-effects, 0)
    return (drawn < up).astype(np.float64) - ((drawn >= up) & (drawn < up + down))


def single(values: Floats) -> Counts:
    kinds, numbers = np.unique(values, return_counts=True)
    return np.array([(number, one, 1) for one, number in zip(kinds, numbers, strict=True)], dtype=np.int64)


def crossed(kind: str, truth: float, between_users: float, between_items: float) -> Scenario:
    """Everybody judges the same items; what an item is like counts for everybody."""

    def draw(random: np.random.Generator, n: int) -> Study:
        user, item = random.normal(0, between_users, (n, 1)), random.normal(0, between_items, SHARED_ITEMS)
        effects: Floats = truth + user + item
        values = judged(random, kind, effects)
        cells = np.stack([values, np.ones_like(values)], axis=2)
        return Study(cells.sum(axis=1), single(values), Crossed(cells.sum(axis=0), cells.reshape(-1, 2)))

    alike = "items alike" if between_items == 0 else "items differ"
    name = f"{kind} {truth:{'+.3f' if kind == 'gain' else '.2f'}}, all judge the same {SHARED_ITEMS} items, {alike}"
    return Scenario(name, draw, truth, within=GAIN if kind == "gain" else SHARE)


def rankings(kind: str, truth: float, between_questions: float) -> Scenario:
    """Everybody ranks the same answers to the same questions; what a question is like counts for all its pairs."""

    def draw(random: np.random.Generator, n: int) -> Study:
        user, question = random.normal(0, 0.1, (n, 1, 1)), random.normal(0, between_questions, (QUESTIONS, 1))
        ranking, pair = random.normal(0, 0.05, (n, QUESTIONS, 1)), random.normal(0, 0.05, (QUESTIONS, len(PAIRS)))
        values = judged(random, kind, truth + user + question + ranking + pair)
        columns = values.ravel(), np.ones(values.size)
        by_user = np.stack([values.sum(axis=(1, 2)), np.full(n, float(values[0].size))], axis=1)
        return Study(by_user, single(values), units_of_rankings(n).totals(*columns))

    alike = "differ" if between_questions else "are alike"
    name = f"{kind} {truth:{'+.3f' if kind == 'gain' else '.2f'}}, rankings of {QUESTIONS} questions that {alike}"
    return Scenario(name, draw, truth, within=GAIN if kind == "gain" else SHARE)


@lru_cache
def units_of_rankings(n: int) -> Units:
    """What palate resamples besides these users."""
    items = [
        RatedItem(id="", user_id=str(user), prompt=f"Question {question}?", responses=pair, preferred=0)
        for user in range(n)
        for question in range(QUESTIONS)
        for pair in PAIRS
    ]
    units = shared_units(items, np.repeat(np.arange(n), QUESTIONS * len(PAIRS)), "auto")
    assert units is not None
    return units


def oracle_gap(mean: float) -> Scenario:
    """The oracle mends two fifths of the errors, and the view half of what the oracle mends."""

    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, items = users(random, n, mean)
        wrong = items - random.binomial(items, accuracies)
        oracle = random.binomial(wrong, random.beta(2, 3, size=n))
        view = random.binomial(oracle, random.beta(5, 5, size=n))
        totals = np.stack([view, oracle, items], axis=1).astype(np.float64)
        neither = (items - oracle).sum()
        return outcomes(totals, (view.sum(), 1, 1, 1), ((oracle - view).sum(), 0, 1, 1), (neither, 0, 0, 1))

    return Scenario(f"oracle gap closed, over {mean:.2f}", draw, 0.5, within=ANYWHERE)


SCENARIOS = [
    *(accuracy(mean) for mean in (0.55, 0.70, 0.85, 0.95)),
    accuracy_of_busy_users(0.70),
    accuracy_of_couples(),
    oracle_gap(0.70),
    *(gain(mean) for mean in (0.55, 0.70, 0.80, 0.85)),
    *(gain_of_few(share, 0.0) for share in (0.03, 0.05, 0.10)),
    *(gain_of_few(share, share * 0.45) for share in (0.03, 0.05, 0.10)),
    gain_of_few(0.05, 0.0, noise=0.0),
    *(gain_of_heavy_raters(kind) for kind in ("any user alike", "heavy raters gain", "few users gain")),
    crossed("accuracy", 0.60, 0.10, 0.10),
    *(crossed("gain", truth, 0.10, 0.10) for truth in (0.0, 0.05)),
    crossed("gain", 0.0, 0.10, 0.0),
    rankings("accuracy", 0.60, 0.15),
    *(rankings("gain", truth, 0.15) for truth in (0.0, 0.05)),
    rankings("gain", 0.0, 0.0),
]


def batch(scenario: Scenario, n: int, count: int, n_resamples: int, seed: list[int]) -> NDArray[np.float64]:
    """Whether each method's interval holds the truth, and whether p is below .05 (studies, methods and one more)."""
    random = np.random.default_rng(seed)
    studies = [scenario.draw(random, n) for _ in range(count)]
    resamples = Resamples(n, seed=int(random.integers(2**31)), n_resamples=n_resamples)
    quantities = [Quantity(study.totals, scenario.statistic, scenario.within, study.crossed) for study in studies]
    if scenario.within == GAIN:
        differences = paired_differences(quantities, resamples)
        ours = [(found.low, found.high) for found in differences]
        alarms = [found.p < 0.05 if scenario.truth == 0 else np.nan for found in differences]
    else:
        ours = [(found.low, found.high) if found else (None, None) for found in intervals(quantities, resamples)]
        alarms = [np.nan] * count
    drawn = np.split(bootstrap_totals(np.concatenate([s.totals for s in studies], axis=1), resamples), count, axis=1)
    held = []
    for (low, high), alarm, by_user, study in zip(ours, alarms, drawn, studies, strict=True):
        numbers = study.rows[:, 0]
        by_row = random.multinomial(numbers.sum(), numbers / numbers.sum(), size=n_resamples) @ study.rows[:, 1:]
        limits = [(np.nan, np.nan) if low is None or high is None else (low, high)]
        for totals in (by_user, by_row.astype(np.float64)):
            limits.append(tuple(np.nanquantile(scenario.statistic(totals), [0.025, 0.975])))
        held.append([*(low <= scenario.truth <= high for low, high in limits), alarm])
    return np.array(held, dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1_000, help="simulated studies a line (default 1,000)")
    parser.add_argument("--resamples", type=int, default=1_000, help="resamples a study (default 1,000)")
    parser.add_argument("--clusters", type=int, nargs="+", default=[20, 50, 149], help="users, or couples")
    parser.add_argument("--only", default="", help="only what has this in its name, such as `heavy`")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    chosen = [(number, one) for number, one in enumerate(SCENARIOS) if options.only in one.name]
    table = Table("what", "users", "palate", "false alarms", "percentile", "rows", box=MARKDOWN)
    shares_held: list[float] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(chosen) * len(options.clusters) * options.studies)
        for number, scenario in chosen:
            for n in options.clusters:
                held = []
                for start in range(0, options.studies, BATCH):
                    count = min(BATCH, options.studies - start)
                    seed = [options.seed, number, n, start]
                    held.append(batch(scenario, n, count, options.resamples, seed))
                    progress.advance(task, count)
                palate, *others, alarms = 100 * np.concatenate(held).mean(axis=0)
                shares_held.append(palate)
                figures = (palate, alarms, *others)
                table.add_row(scenario.name, str(n), *("" if np.isnan(f) else f"{f:.1f}%" for f in figures))
    Console(width=130).print(table)
    print(f"{options.studies:,} studies a line, {options.resamples:,} resamples each, seed {options.seed}.")
    inside = sum(93 <= share <= 97 for share in shares_held)
    print(f"palate's intervals hold the truth in {min(shares_held):.1f}% to {max(shares_held):.1f}% of the studies,")
    print(f"and in 93 to 97% of them in {inside} of {len(shares_held)} lines.")


if __name__ == "__main__":
    main()
