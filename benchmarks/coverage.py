"""How often do the 95% intervals hold the truth? Simulated studies with strong differences between users.

    python benchmarks/coverage.py                  # 2,000 studies a line, a few minutes on two cores
    python benchmarks/coverage.py --studies 200    # a quick look

Every user has their own accuracy, drawn from a Beta distribution with a standard deviation of 0.2 around
a mean of 0.7, and their own number of items, from one to some hundreds, about 30 on average. `palate` is
the interval that the reports show; `percentile` is the plain percentile bootstrap over users; `rows`
resamples items as if they were independent. 93 to 97% is what we ask of `palate`.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from palate.evaluate._statistics import (
    ANYWHERE,
    GAIN,
    SHARE,
    Floats,
    Quantity,
    Resamples,
    Statistic,
    bootstrap_totals,
    intervals,
    ratio,
)

CONCENTRATION = 4.0
"""Beta(4 m, 4 (1 - m)): a fifth of the variance of single answers lies between users."""
MEAN_ITEMS = 20 * np.exp(0.8**2 / 2)
BATCH = 50
"""Studies bootstrapped together."""

Counts = NDArray[np.int64]
Study = tuple[Floats, Counts]
"""Totals by cluster (clusters, columns); how many items had which outcome, an outcome a row:
its number of items and then what one such item adds to each total."""


@dataclass(frozen=True)
class Scenario:
    """A kind of study, and the true value of what it estimates."""

    name: str
    draw: Callable[[np.random.Generator, int], Study]
    truth: float
    statistic: Statistic = ratio
    within: tuple[float, float] = SHARE


def users(random: np.random.Generator, n: int, mean: float) -> tuple[Floats, Counts]:
    accuracies = random.beta(CONCENTRATION * mean, CONCENTRATION * (1 - mean), size=n)
    return accuracies, 1 + random.poisson(random.lognormal(np.log(20), 0.8, size=n))


def outcomes(totals: Floats, *rows: tuple[int, ...]) -> Study:
    return totals, np.array(rows, dtype=np.int64)


def accuracy(mean: float) -> Scenario:
    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, items = users(random, n, mean)
        right = random.binomial(items, accuracies)
        totals = np.stack([right, items], axis=1).astype(np.float64)
        return outcomes(totals, (right.sum(), 1, 1), ((items - right).sum(), 0, 1))

    return Scenario(f"accuracy {mean:.2f}", draw, mean)


def accuracy_of_busy_users(mean: float) -> Scenario:
    """Users who are served well stay and judge more, so the truth is the mean over items."""

    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, _ = users(random, n, mean)
        items = 1 + random.poisson(random.lognormal(np.log(20), 0.8, size=n) * 2 * accuracies)
        right = random.binomial(items, accuracies)
        totals = np.stack([right, items], axis=1).astype(np.float64)
        return outcomes(totals, (right.sum(), 1, 1), ((items - right).sum(), 0, 1))

    square = mean**2 + mean * (1 - mean) / (CONCENTRATION + 1)
    truth = (mean + 2 * MEAN_ITEMS * square) / (1 + 2 * MEAN_ITEMS * mean)
    return Scenario(f"accuracy {truth:.2f}, busy users served better", draw, truth)


def accuracy_of_couples() -> Scenario:
    """Twins want opposite things: either both are right, or exactly one of them is."""

    def draw(random: np.random.Generator, n: int) -> Study:
        both, items = users(random, n, 0.3)
        pairs = random.binomial(items, both)
        totals = np.stack([items + pairs, 2 * items], axis=1).astype(np.float64)
        right, all_items = int(totals[:, 0].sum()), int(totals[:, 1].sum())
        return outcomes(totals, (right, 1, 1), (all_items - right, 0, 1))

    return Scenario("accuracy 0.65, couples of twins", draw, 0.65)


def gain(mean: float) -> Scenario:
    """A view that mends a fifth of the errors and breaks a twentieth of the rest, more for some users."""

    def draw(random: np.random.Generator, n: int) -> Study:
        accuracies, items = users(random, n, mean)
        right = random.binomial(items, accuracies)
        mended = random.binomial(items - right, random.beta(1, 4, size=n))
        broken = random.binomial(right, random.beta(0.5, 9.5, size=n))
        totals = np.stack([mended - broken, items], axis=1).astype(np.float64)
        same = (items - mended - broken).sum()
        return outcomes(totals, (mended.sum(), 1, 1), (broken.sum(), -1, 1), (same, 0, 1))

    truth = 0.2 * (1 - mean) - 0.05 * mean
    return Scenario(f"gain {truth:+.3f} over {mean:.2f}", draw, truth, within=GAIN)


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
    *(gain(mean) for mean in (0.55, 0.70, 0.85)),
    oracle_gap(0.70),
]


def batch(scenario: Scenario, n: int, count: int, n_resamples: int, seed: list[int]) -> NDArray[np.bool_]:
    """Whether each method's interval holds the truth (studies, methods)."""
    random = np.random.default_rng(seed)
    studies = [scenario.draw(random, n) for _ in range(count)]
    resamples = Resamples(n, seed=int(random.integers(2**31)), n_resamples=n_resamples)
    ours = intervals([Quantity(totals, scenario.statistic, scenario.within) for totals, _ in studies], resamples)
    drawn = np.split(bootstrap_totals(np.concatenate([t for t, _ in studies], axis=1), resamples), count, axis=1)
    held = []
    for estimate, by_user, (_, rows) in zip(ours, drawn, studies, strict=True):
        frequencies = rows[:, 0] / rows[:, 0].sum()
        by_row = random.multinomial(rows[:, 0].sum(), frequencies, size=n_resamples) @ rows[:, 1:]
        limits = [(estimate.low, estimate.high) if estimate else (np.nan, np.nan)]
        for totals in (by_user, by_row.astype(np.float64)):
            limits.append(tuple(np.nanquantile(scenario.statistic(totals), [0.025, 0.975])))
        held.append([low <= scenario.truth <= high for low, high in limits])
    return np.array(held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2_000, help="simulated studies a line (default 2,000)")
    parser.add_argument("--resamples", type=int, default=2_000, help="resamples a study (default 2,000)")
    parser.add_argument("--clusters", type=int, nargs="+", default=[30, 100, 300], help="users, or couples")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    table = Table("what", "users", "palate", "percentile", "rows", box=MARKDOWN)
    worst, best = 100.0, 0.0
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(SCENARIOS) * len(options.clusters) * options.studies)
        for number, scenario in enumerate(SCENARIOS):
            for n in options.clusters:
                held = []
                for start in range(0, options.studies, BATCH):
                    count = min(BATCH, options.studies - start)
                    seed = [options.seed, number, n, start]
                    held.append(batch(scenario, n, count, options.resamples, seed))
                    progress.advance(task, count)
                covered = 100 * np.concatenate(held).mean(axis=0)
                worst, best = min(worst, covered[0]), max(best, covered[0])
                table.add_row(scenario.name, str(n), *(f"{share:.1f}%" for share in covered))
    Console(width=100).print(table)
    print(f"{options.studies:,} studies a line, {options.resamples:,} resamples each, seed {options.seed}.")
    print(f"palate's intervals hold the truth in {worst:.1f}% to {best:.1f}% of the studies.")


if __name__ == "__main__":
    main()
