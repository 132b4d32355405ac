"""Benchmarks and runs whose answers are known because they were planted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from palate.data import write_benchmark
from palate.evaluation import evaluate
from palate.records import Ask, Benchmark, Card, Comparison, Post, Rating, User

CARD = Card(name="planted", title="Planted", version="1", licence="CC0-1.0", source="this test")


def benchmark_of(users: Sequence[User], comparisons: Sequence[Comparison]) -> Benchmark:
    return Benchmark(card=CARD, users={user.id: user for user in users}, comparisons=tuple(comparisons))


def written(benchmark: Benchmark, folder: Path) -> Path:
    write_benchmark(benchmark, folder)
    return folder


def choice(id: str, user: str, number: int, preferred: int, **more: object) -> Comparison:
    """One of the two responses to question `number`, which are the same for everybody."""
    responses = (f"Answer {number}, in short.", f"Reply {number}, in brief.")
    return Comparison(
        id=id, user_id=user, prompt=f"Question {number}?", responses=responses, preferred=preferred, **more
    )  # type: ignore[arg-type]


def with_conflicts(pairs: int = 100, conflicts: int = 30) -> Benchmark:
    """Two users judge every pair, and disagree on the first `conflicts` of them."""
    users = [User(id=f"u{number}") for number in range(20)]
    comparisons = []
    for number in range(pairs):
        one, other = f"u{number % 20}", f"u{(number + 1) % 20}"
        comparisons.append(choice(f"{number}-a", one, number, number % 2))
        comparisons.append(choice(f"{number}-b", other, number, (number + (number < conflicts)) % 2))
    return benchmark_of(users, comparisons)


class Planted:
    """Right on a known share of each group's items; the share may depend on whether there is a profile."""

    name = "planted"

    def __init__(self, shares: Mapping[str, tuple[float, float]]) -> None:
        self.shares = shares
        self.fingerprint = repr(sorted(shares.items()))

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([self._score(ask, response) for response in ask.responses]) for ask in asks]

    def _score(self, ask: Ask, response: str) -> float:
        group = ask.prompt.split(":")[0]
        share = self.shares[group][bool(ask.view.parts)]
        draw = int.from_bytes(hashlib.sha256(f"{ask.id} {ask.view.name}".encode()).digest()[:6]) / 2**48
        return float(("good" in response) == (draw < share))


def run_of(sizes: Mapping[str, int], shares: Mapping[str, tuple[float, float]], out: Path, items: int = 12) -> Path:
    """A run of a planted model on users of a few regions."""
    users, comparisons = [], []
    for region, size in sizes.items():
        for number in range(size):
            id = f"{region}-{number}"
            posts = (Post(id=f"{id}-p", text="I wrote this before."),)
            users.append(User(id=id, demographics={"region": region}, posts=posts))
            comparisons += [
                Comparison(
                    id=f"{id}-{item}",
                    user_id=id,
                    prompt=f"{region}: question {id}-{item}?",
                    responses=(f"good {id}-{item}", f"evil {id}-{item}"),
                    preferred=0,
                )
                for item in range(items)
            ]
    summary = evaluate(benchmark_of(users, comparisons), [Planted(shares)], ["none", "posts:1"], out=out)
    return Path(summary.run)
