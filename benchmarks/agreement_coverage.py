"""Do the intervals of agreement hold the truth, and does the test between predictors cry wolf? Simulated zoos.

    python benchmarks/agreement_coverage.py                   # 120 zoos a number, under three minutes on one core
    python benchmarks/agreement_coverage.py --zoos 300        # the tables of docs/statistics.md

A zoo has 10, 20 or 40 models with a predictor and an outcome each, which users measure with noise. The truth is the
coefficient between what infinitely many users would say, over the population that the models come from; for weighted
tau, RBO and NDCG, which depend on the number of models, its mean over zoos of that size. The four numbers of a cell
are the shares of 95% intervals that hold it where the correlation of the two is 0, .3, .6 and .9. `bootstrap` is the
plain percentile bootstrap of models and users, for Spearman's; `none` is the share of zoos too noisy for an interval
of Spearman's, which are left out. 94 to 96% is what we ask of the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from palate.stats import Floats, Scores, ratio
from palate.stats._agreement import predictor_difference
from palate.stats._association import Spread
from palate.stats._coefficients import COEFFICIENTS, coefficients, pearson, spearman
from palate.stats._scores import measure

CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
RESAMPLES = 200
IN_A_FAMILY = 5


@dataclass(frozen=True)
class Zoo:
    """The population that models come from, and how it is measured."""

    population: str
    reliability: float = 0.95
    """The part of the variance between models that is not the noise of users, for predictor and outcome alike."""
    users: int = 200
    same_people: bool = False
    """The same users judge both, and half of the variance of their noise is common to both."""
    told: bool = True
    """Whether the interval is told of the families."""

    @property
    def name(self) -> str:
        """As the tables print it."""
        noise = f"{1 - self.reliability:.0%} noise, {self.users} users"
        return ", ".join([self.population, noise] + ["the same for both"] * self.same_people)

    def families(self, n: int) -> NDArray[np.intp] | None:
        """The family of each model, where they come in families."""
        return np.arange(n) % max(3, n // IN_A_FAMILY) if self.population.startswith("families") else None

    def true_values(self, random: np.random.Generator, zoos: int, loadings: Floats, n: int) -> Floats:
        """(columns, zoos, models); each row of loadings is a column of unit variance."""
        shape = loadings.shape[1], zoos, n
        families = self.families(n)
        if self.population == "exponential":
            drawn = random.exponential(size=shape) - 1
        else:
            drawn = random.standard_normal(shape)
        if families is not None:
            drawn = np.sqrt(0.5) * (drawn + random.standard_normal(shape)[:, :, families])
        values = np.tensordot(loadings, drawn, axes=1)
        return np.exp(values / 2) if self.population == "lognormal" else values

    def measured(self, random: np.random.Generator, values: Floats, spreads: Floats) -> list[Scores]:
        """Scores of one zoo (columns, models): each user's view of each model."""
        noise = random.standard_normal((*values.shape, self.users))
        if self.same_people:
            noise = np.sqrt(0.5) * (noise + random.standard_normal(noise.shape[1:]))
        noise *= spreads[:, None, None] * np.sqrt(self.users * (1 / self.reliability - 1))
        seen = values[:, :, None] + noise + random.standard_normal(self.users)
        totals = np.stack([seen, np.ones_like(seen)], axis=3)
        people = "everybody" if self.same_people else ""
        return [Scores(str(place), column, ratio, people) for place, column in enumerate(totals)]


ZOOS = [
    *(
        Zoo(population, reliability, users)
        for population in ("normal", "lognormal", "exponential", "families")
        for reliability, users in ((0.95, 200), (0.8, 30))
    ),
    Zoo("normal", 0.8, 30, same_people=True),
    Zoo("families, but not told", told=False),
]


def of_correlation(rho: float) -> Floats:
    return np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])


def truths(zoo: Zoo, rho: float, n: int) -> tuple[dict[str, float], Floats]:
    """What intervals should hold, and the spread of each column."""
    random = np.random.default_rng(0)
    of_size = coefficients(*zoo.true_values(random, 5_000, of_correlation(rho), n))
    large = replace(zoo, population=zoo.population if "famil" not in zoo.population else "normal")
    many = large.true_values(random, 400, of_correlation(rho), 1_000)
    found = {name: float(np.nanmean(values)) for name, values in of_size.items()}
    flat = many.reshape(2, -1)
    found["pearson"] = float(pearson(flat[0], flat[1]))
    found["spearman"] = float(spearman(many[0], many[1]).mean())
    first, second = (column[:, ::2] - column[:, 1::2] for column in many)
    found["kendall"] = float(np.mean(np.sign(first * second)))
    return found, flat.std(axis=1)


def held(zoo: Zoo, rho: float, n: int, zoos: int, seed: list[int]) -> Floats:
    """The share of zoos whose interval holds the truth, for each coefficient and the bootstrap, and how many have none.

    The truth is simulated too, so a thousandth is not held against a limit.
    """
    random = np.random.default_rng(seed)
    true, spreads = truths(zoo, rho, n)
    families = zoo.families(n) if zoo.told else None
    results = []
    for values in np.moveaxis(zoo.true_values(random, zoos, of_correlation(rho), n), 1, 0):
        x, y = measure(zoo.measured(random, values, spreads), int(random.integers(2**31)), RESAMPLES)
        seen = coefficients(x.values, y.values)
        by = {by_rank: Spread.of(x, y, families, by_rank) for by_rank in (False, True)}
        limits = [by[name != "pearson"].limits(name, float(seen[name][0]), n)[:2] for name in COEFFICIENTS]
        assert x.draws is not None and y.draws is not None
        chosen = random.integers(n, size=(RESAMPLES, n))
        both = [np.take_along_axis(draws, chosen, axis=1) for draws in (x.draws, y.draws)]
        low, high = np.nanquantile(spearman(*both), [0.025, 0.975])
        targets = [*(true[name] for name in COEFFICIENTS), true["spearman"]]
        results.append(
            [
                np.nan if low is None or high is None else low - 1e-3 <= target <= high + 1e-3
                for (low, high), target in zip([*limits, (low, high)], targets, strict=True)
            ]
        )
    table = np.array(results, dtype=np.float64)
    return np.append(np.nanmean(table, axis=0), np.mean(np.isnan(table[:, 1])))


@dataclass(frozen=True)
class Rivals:
    """Two predictors: the correlation of each with the outcome, with each other, and their reliabilities."""

    first: float
    second: float
    between: float
    reliabilities: tuple[float, float] = (0.95, 0.95)

    @property
    def name(self) -> str:
        """As the tables print it."""
        noise = ", ".join(f"{1 - one:.0%}" for one in self.reliabilities)
        return f"{self.first:.1f} and {self.second:.1f}, with each other {self.between:.2f}, noise {noise}"


RIVALS = [
    Rivals(0.0, 0.0, 0.0),
    Rivals(0.3, 0.3, 0.3),
    Rivals(0.6, 0.6, 0.5),
    Rivals(0.6, 0.6, 0.9),
    Rivals(0.9, 0.9, 0.85),
    Rivals(0.6, 0.6, 0.5, (0.95, 0.7)),
    Rivals(0.6, 0.3, 0.5),
    Rivals(0.8, 0.4, 0.5),
]


def compared(rivals: Rivals, population: str, n: int, zoos: int, seed: list[int]) -> Floats:
    """How often p is below .05, and how often the interval holds the true difference of Spearman's."""
    random = np.random.default_rng(seed)
    one, two, between = rivals.first, rivals.second, rivals.between
    loadings = np.linalg.cholesky(np.array([[1, one, two], [one, 1, between], [two, between, 1]]))
    true = 6 / np.pi * (np.arcsin(one / 2) - np.arcsin(two / 2))
    kinds = [Zoo(population, reliability) for reliability in (0.95, *rivals.reliabilities)]
    spreads = np.ones(1)
    families = kinds[0].families(n)
    results = []
    for values in np.moveaxis(kinds[0].true_values(random, zoos, loadings, n), 1, 0):
        scores = [kind.measured(random, value[None], spreads)[0] for kind, value in zip(kinds, values, strict=True)]
        outcome, first, second = measure(scores, int(random.integers(2**31)), RESAMPLES)
        _, low, high, p = predictor_difference(first, second, outcome, families, 0)
        held = np.nan if low is None or high is None else low <= true <= high
        results.append([np.nan if p is None else p < 0.05, held])
    return np.asarray(np.nanmean(np.array(results, dtype=np.float64), axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoos", type=int, default=120, help="simulated zoos a number (default 120)")
    parser.add_argument("--models", type=int, nargs="+", default=[10, 20, 40], help="models in a zoo")
    parser.add_argument("--only", default="", help="only zoos with this in their name, or `predictors`")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    console, shares = Console(width=200), []
    table = Table("zoo", "models", *COEFFICIENTS, "bootstrap", "none", box=MARKDOWN)
    chosen = [(number, zoo) for number, zoo in enumerate(ZOOS) if options.only in zoo.name]
    rivals = RIVALS if options.only in ("", "predictors") else []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(options.models) * (4 * len(chosen) + 2 * len(rivals)))
        for number, zoo in chosen:
            for n in options.models:
                rows = []
                for place, rho in enumerate(CORRELATIONS):
                    rows.append(100 * held(zoo, rho, n, options.zoos, [options.seed, number, n, place]))
                    progress.advance(task)
                table.add_row(zoo.name, str(n), *(" ".join(f"{v:.0f}" for v in column) for column in np.array(rows).T))
                shares += np.array(rows)[:, :-2].ravel().tolist() if zoo.told else []
        tests = Table("predictors", "models", "found", "held", "found, families", "held, families", box=MARKDOWN)
        for number, pair in enumerate(rivals):
            for n in options.models:
                figures: list[float] = []
                for population in ("normal", "families"):
                    figures += (100 * compared(pair, population, n, options.zoos, [options.seed, number, n])).tolist()
                    progress.advance(task)
                tests.add_row(pair.name, str(n), *(f"{figure:.1f}%" for figure in figures))
    if chosen:
        console.print(table)
        inside = sum(94 <= share <= 96 for share in shares)
        print(f"{options.zoos:,} zoos a number, {RESAMPLES} resamples of users, seed {options.seed}. Without the")
        print(f"bootstrap and families that are not told: {min(shares):.1f} to {max(shares):.1f}%, on average")
        print(f"{np.mean(shares):.1f}%; {inside} of {len(shares)} lie within 94 to 96%.")
    if rivals:
        console.print(tests)


if __name__ == "__main__":
    main()
