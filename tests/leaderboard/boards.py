"""A benchmark of people in two regions, models that know more or less of them, and runs of these models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from palate.evaluation import Summary, evaluate
from palate.records import Ask, Benchmark, Card, Comparison, Post, Rating, User

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m=cmd|calc'
CONTROLS = ("random", "longest")


def people(users: int = 40, items: int = 6, *, version: str = "1", prompt: str = "Which drink?") -> Benchmark:
    """Everybody prefers the response that ends in their own word; a third of the people live in the north."""
    found, comparisons = {}, []
    for user in range(users):
        name = f"person-{user:03d}"
        taste = "tea" if user % 2 else "coffee"
        region = "north" if user % 3 == 0 else "south"
        found[name] = User(
            id=name,
            demographics={"region": region},
            posts=(Post(id=f"{name}-post", text=f"I always want {taste}.", date="2026-01-01"),),
        )
        for item in range(items):
            responses = (f"Have {item} cups of tea", f"Have {item} mugs of coffee")
            comparisons.append(
                Comparison(
                    id=f"{name}-{item}",
                    user_id=name,
                    prompt=f"{prompt} {item}",
                    responses=responses,
                    preferred=0 if taste == "tea" else 1,
                    category="morning" if item % 2 else "evening",
                )
            )
    card = Card(name="drinks", title="Drinks", version=version, licence="CC0-1.0", source="made for the tests")
    return Benchmark(card=card, users=found, comparisons=tuple(comparisons))


class Knows:
    """Scores what the person wants higher, but errs on a share of the items; without a profile it guesses."""

    def __init__(self, name: str, errs: float, *, north: float | None = None) -> None:
        self.name, self._errs, self._north = name, errs, errs if north is None else north
        self.fingerprint = f"{name} {errs} {north}"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [self._rate(ask) for ask in asks]

    def _rate(self, ask: Ask) -> Rating:
        known = ask.view.text
        draw = random.Random(f"{self.name} {ask.id}").random()
        errs = self._north if int(ask.id.split("-")[1]) % 3 == 0 else self._errs
        wanted = (
            "tea"
            if "tea" in known
            else "coffee"
            if "coffee" in known
            else random.Random(draw).choice(["tea", "coffee"])
        )
        wrong = draw < errs
        scores = [float((wanted in response) != wrong) for response in ask.responses]
        chance = [0.8 if score else 0.2 for score in scores]
        return Rating(scores=scores, probabilities=chance, raw=f"{HOSTILE} {self.name} wants {wanted}")


def run_of(benchmark: Benchmark, models: Sequence[Knows], out: Path) -> Summary:
    """A run of these models and of two controls, seeing nothing, the profile, and a stranger's."""
    return evaluate(benchmark, [*models, *CONTROLS], ["none", "posts:1", "swapped"], out=out, strangers=1)
