"""A world where all is known: the policy writes numbers, and what a text is worth is the number in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from palate import Ask, Rating
from palate.engine import Conversation, Failure, WriteRequest, Written
from palate.records import Benchmark, Card, Comparison, Completion, Draft, Grade, Judgement, User

CARD = Card(name="numbers", title="Numbers", version="1", licence="none", source="made for the tests")


def numbers(users: int, items: int = 1) -> Benchmark:
    people = {f"user-{one}": User(id=f"user-{one}", judgements=(past(one),)) for one in range(users)}
    asked = [
        Comparison(
            id=f"item-{one}-{place}",
            user_id=f"user-{one}",
            prompt=f"Write a number, {one} and {place}.",
            responses=("1", "2"),
            preferred=1,
        )
        for one in range(users)
        for place in range(items)
    ]
    return Benchmark(card=CARD, users=people, comparisons=tuple(asked))


def past(one: int) -> Judgement:
    return Judgement(prompt=f"Before, {one}?", responses=("3", "4"), preferred=1, id=f"past-{one}")


def drawn(*words: object) -> np.random.Generator:
    digest = hashlib.sha256("\x00".join(map(str, words)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8]))


class Normal:
    """Writes numbers from a normal distribution; a shown profile moves their mean by `taught`."""

    name = "normal"
    context: int | None = None
    templated = True

    def __init__(self, taught: float = 0.0, digits: int = 6) -> None:
        self.taught = taught
        self.digits = digits
        self.asked: list[WriteRequest] = []

    @property
    def fingerprint(self) -> str:
        return f"{self.taught} {self.digits}"

    def status(self) -> str:
        return ""

    def count_tokens(self, turns: Conversation) -> int | None:
        return None

    def write(self, requests: Sequence[WriteRequest]) -> list[list[Written] | Failure]:
        self.asked += requests
        return [self._write(request) for request in requests]

    def _write(self, request: WriteRequest) -> list[Written] | Failure:
        draw = drawn(request.sampling.seed, *(turn.content for turn in request.turns))
        mean = self.taught if len(request.turns) > 1 else 0.0
        values = draw.normal(mean, 1, request.samples)
        return [Written(text=f"{value:.{self.digits}f}", tokens=3, finished=True) for value in values]

    def choose(self, requests: object) -> list[object]:
        raise AssertionError("best-of-N asks a policy for texts, and for nothing else")

    def likelihood(self, requests: object) -> list[object]:
        raise AssertionError("best-of-N asks a policy for texts, and for nothing else")


class Silent(Normal):
    """Stops at once."""

    name = "silent"

    def _write(self, request: WriteRequest) -> list[Written] | Failure:
        return [Written(text="", tokens=0, finished=True)] * request.samples


class Worth:
    """The critic: a text is worth its number, bent by `curve` (which punishes large numbers) where there is one."""

    name = "worth"

    def __init__(self, curve: float = 0.0, unscored: str = "") -> None:
        self.curve = curve
        self.unscored = unscored
        self.judged: list[str] = []

    @property
    def fingerprint(self) -> str:
        return f"{self.curve} {self.unscored}"

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        return None

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        self.judged += [draft.text for draft in drafts]
        return [self._mark(draft) for draft in drafts]

    def _mark(self, draft: Draft) -> Grade:
        if draft.item.id == self.unscored:
            return Grade(unscored="no opinion")
        value = float(draft.text or 0)
        return Grade(value - self.curve * value**2)


class Noisy:
    """A reward model that knows the number, with so much noise."""

    def __init__(self, noise: float = 0.0, name: str = "noisy", unscored: str = "") -> None:
        self.name = name
        self.noise = noise
        self.unscored = unscored
        self.fingerprint = f"{noise} {unscored}"
        self.asked: list[Ask] = []

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        self.asked += asks
        return [
            Rating(unscored="no idea")
            if ask.id == self.unscored
            else Rating([self._score(text) for text in ask.responses])
            for ask in asks
        ]

    def _score(self, text: str) -> float:
        return float(text or 0) + self.noise * float(drawn("noise", text).normal())
