"""How many answers does active choice save, against pairs at random? On simulated users, whose taste is known.

    python benchmarks/active_choice.py                   # 120 users, two minutes on one core
    python benchmarks/active_choice.py --users 20 --draws 1
    python benchmarks/active_choice.py --noise 0.5       # people who are less sure of themselves

Each user answers up to 80 of 200 pairs, either drawn at random or chosen actively, and the same model (a Bayesian
logistic regression on countable traits) learns from either. Accuracy is that on 200 other pairs: the probability that
the user takes the response that the model prefers, so that only the choice of pairs and the answers are noise. The same
texts and users for both; intervals resample couples of users, since the two of a couple are mirror images.

Saved: how many answers fewer active choice needs for the accuracy that random pairs reach with a given number, from the
mean curves, with the interval over resampled couples. The last table is about the bias of active choice: a model that
was frozen before is measured on the answers, plainly and weighted by the recorded probabilities.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse
import random
from collections.abc import Sequence

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from palate.collect._active import (
    EPSILON,
    PairFeatures,
    correction_weights,
    draw_probabilities,
    fit,
    information,
    pair_features,
)
from palate.collect._records import Item
from palate.report import percent, percent_interval, points, points_interval
from palate.simulate import taste_of, utility
from palate.simulate._pool import pool
from palate.simulate._taste import user_id
from palate.stats import GAIN, SHARE, Floats, Resamples, ratio_interval

POOL, HELD_OUT = 200, 200
STEPS = (5, 10, 20, 30, 40, 60, 80)
WAYS = ("random", "active")


def chances_of(name: str, items: Sequence[Item], noise: float) -> Floats:
    """The probability that a user takes the first response of each pair."""
    taste = taste_of(name)
    differences = [utility(taste, item.responses[0]) - utility(taste, item.responses[1]) for item in items]
    return np.asarray(0.5 * (1 + np.tanh(np.array(differences) / noise / 2)))


def learn(
    way: str, features: PairFeatures, chances: Floats, chance: random.Random, frozen: Floats | None = None
) -> tuple[list[float], tuple[float, float]]:
    """Held-out accuracy after each step, and the accuracy of a frozen model on the answers, raw and weighted."""
    rows, held_out = features.differences[:POOL], features.differences[POOL:]
    left = list(range(POOL))
    told: list[int] = []
    taken: list[float] = []
    drawn: list[float] = []
    curve: list[float] = []
    for count in range(1, max(STEPS) + 1):
        if way == "active":
            posterior = fit(rows[told], taken)
            probabilities = draw_probabilities(information(posterior, rows[left]))
        else:
            probabilities = np.full(len(left), 1 / len(left))
        place = chance.choices(range(len(left)), weights=probabilities.tolist())[0]
        drawn.append(float(probabilities[place]))
        told.append(left.pop(place))
        taken.append(float(chance.random() < chances[told[-1]]))
        if count in STEPS:
            prefers = held_out @ fit(rows[told], taken).mean > 0
            curve.append(float(np.where(prefers, chances[POOL:], 1 - chances[POOL:]).mean()))
    right = np.array(taken) == (rows[told] @ frozen > 0) if frozen is not None else np.zeros(len(told))
    return curve, (float(right.mean()), float((correction_weights(drawn, POOL) * right).mean()))


def answers_needed(curve: Floats, accuracy: float) -> float:
    """How many answers reach an accuracy, by straight lines between the steps; infinitely many if none does."""
    reached = np.maximum.accumulate(np.concatenate([[0.5], curve]))
    steps = np.array([0, *STEPS], dtype=np.float64)
    if accuracy > reached[-1]:
        return float("inf")
    return float(np.interp(accuracy, reached + 1e-12 * np.arange(len(reached)), steps))


def saved(curves: dict[str, Floats], step: int, seed: int) -> tuple[float, float, float]:
    """How many of the random answers active choice saves, with the interval over couples."""
    place = STEPS.index(step)

    def of(weights: Floats) -> float:
        mean = {way: weights @ curves[way] / weights.sum() for way in WAYS}
        return step - answers_needed(mean["active"], float(mean["random"][place]))

    couples = len(curves["random"])
    resampled = [of(row) for weights in Resamples(couples, seed=seed, n_resamples=2_000) for row in weights]
    low, high = np.quantile(resampled, [0.025, 0.975], method="nearest")
    return of(np.ones(couples)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=120, help="an even number; users come in couples")
    parser.add_argument("--draws", type=int, default=3, help="how often each user answers again")
    parser.add_argument("--noise", type=float, default=0.2, help="0.2 is that of the benchmark sim")
    parser.add_argument("--features", default="traits", help="what the model reads of a response")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()

    offers = pool(options.seed)[: POOL + HELD_OUT]
    items = [Item(id=offer.id, prompt=offer.prompt, responses=offer.responses) for offer in offers]
    features = pair_features(items, options.features)
    curves = {way: np.zeros((options.users // 2, len(STEPS))) for way in WAYS}
    bias = np.zeros((options.users // 2, 3))
    for number in range(options.users):
        name = user_id(options.seed, number)
        chances = chances_of(name, items, options.noise)
        for draw in range(options.draws):
            share = 1 / (2 * options.draws)
            before = random.Random(f"before {name} {draw}")
            asked = before.sample(range(POOL, POOL + HELD_OUT), 10)
            frozen = fit(features.differences[asked], [before.random() < chances[one] for one in asked]).mean
            for way in WAYS:
                answered = random.Random(f"{way} {name} {draw}")
                curve, (raw, weighted) = learn(way, features, chances, answered, frozen)
                curves[way][number // 2] += share * np.array(curve)
                if way == "active":
                    prefers = features.differences[:POOL] @ frozen > 0
                    truth = np.where(prefers, chances[:POOL], 1 - chances[:POOL]).mean()
                    bias[number // 2] += share * np.array([truth, raw, weighted])
        print(f"\r{number + 1} of {options.users} users", end="", file=sys.stderr)
    print(file=sys.stderr)
    report(curves, bias, options)


def report(curves: dict[str, Floats], bias: Floats, options: argparse.Namespace) -> None:
    console = Console(width=150)
    couples = options.users // 2
    resamples, ones = Resamples(couples, seed=options.seed), np.ones(couples)
    table = Table(box=MARKDOWN)
    for title in ("answers", "random pairs", "active choice", "difference", "answers saved"):
        table.add_column(title, justify="right")
    for place, step in enumerate(STEPS):
        cells = []
        for way in WAYS:
            estimate = ratio_interval(curves[way][:, place], ones, resamples, SHARE)
            assert estimate is not None
            cells.append(f"{percent(estimate.value)} ({percent_interval(estimate.low, estimate.high)})")
        gain = ratio_interval((curves["active"] - curves["random"])[:, place], ones, resamples, GAIN)
        assert gain is not None
        value, low, high = saved(curves, step, options.seed)
        number = f"{value:.1f} ({low:.1f} to {high:.1f})".replace("-", "−")
        table.add_row(str(step), *cells, f"{points(gain.value)} ({points_interval(gain.low, gain.high)})", number)
    console.print(table)
    console.print(
        f"{options.users} simulated users in {couples} couples, {options.draws} draws each, noise {options.noise:g}, "
        f"features {options.features}, epsilon {EPSILON:g}, seed {options.seed}\n"
    )
    table = Table(box=MARKDOWN)
    for title in ("accuracy of a frozen model", "mean over users", "less that on the whole pool"):
        table.add_column(title)
    for place, title in enumerate(("on the whole pool of pairs", "raw, on 80 active answers", "weighted, on the same")):
        estimate = ratio_interval(bias[:, place], ones, resamples, (0.0, 2.0))
        error = ratio_interval(bias[:, place] - bias[:, 0], ones, resamples, GAIN) if place else None
        assert estimate is not None
        difference = f"{points(error.value)} ({points_interval(error.low, error.high)})" if error else ""
        table.add_row(title, f"{percent(estimate.value)} ({percent_interval(estimate.low, estimate.high)})", difference)
    console.print(table)


if __name__ == "__main__":
    main()
