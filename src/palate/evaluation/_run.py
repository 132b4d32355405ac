"""The folder of an evaluation, and the order in which a model sees an item's responses.

items.jsonl     the comparisons that were rated, with their labels
parts.jsonl     every piece of a profile that was shown, once
views.jsonl     which pieces each item's view was made of
ratings.jsonl   every rating, in the order in which it was made
costs.jsonl     in runs of `palate train`, what a user costs each model: the one ledger that is another on every run
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec

from palate.records import Ask, Benchmark, Comparison, Rating, View
from palate.runs import PARTS, VIEWS, Ledger, ModelSettings, Needs, ViewedSettings, seeded
from palate.views import ViewSpec

Key = tuple[str, str, str, int]
"""A model, a view, an item, and which of the view's strangers."""


class Settings(ViewedSettings, frozen=True, kw_only=True):
    """The resolved settings of an evaluation."""

    kind: Literal["eval"] = "eval"
    models: Annotated[list[ModelSettings], msgspec.Meta(min_length=1)]
    views: Annotated[list[ViewSpec], msgspec.Meta(min_length=1)]
    baseline: str | None = None
    """The label of the impersonal model that the others of a training run are measured against."""
    split: str | None = None
    """What a training run trained on and what it asked, in words."""

    @property
    def label(self) -> str:
        """A folder is named after the benchmark alone."""
        return ""


class RatedItem(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A comparison as the run keeps it: texts, label, and what the slices need."""

    id: str
    user_id: str
    prompt: str
    responses: tuple[str, ...]
    preferred: int
    category: str | None = None
    difficulty: str | None = None
    contrast: str | None = None
    twin: str | None = None
    group: str | None = None
    traits: dict[str, str] = {}
    """The user's demographics that have one value each."""
    known: int | None = None
    """How many judgements of this user the trained models could learn from, in runs of `palate train`."""

    def __post_init__(self) -> None:
        if len(self.responses) < 2 or not 0 <= self.preferred < len(self.responses):
            raise ValueError(f"preferred is {self.preferred}, and there are {len(self.responses)} responses")


class RatingLine(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ratings.jsonl`; the numbers stand in the order of the item's responses."""

    rm: str
    view: str
    item: str
    draw: int = 0
    """Which of the view's strangers it was rated with."""
    rating: Rating

    @property
    def key(self) -> Key:
        """What is rated once and once only."""
        return self.rm, self.view, self.item, self.draw


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a user costs a trained model, beyond what all users share; a line of `costs.jsonl`."""

    rm: str
    bytes: int
    """Kept of a user, as the model is saved; the median over users."""
    adapt_ms: float | None
    """Milliseconds to learn a new user from 8 judgements; the median. Absent where nothing is learned."""
    score_ms: float | None
    """Milliseconds to score two responses for a known user, their features cached; the median."""


def _view_of(line: RatingLine) -> list[tuple[str, str, int]]:
    """What a rating was made with; where there was nothing to show and nobody was asked, no view."""
    asked = line.rating.scores is not None or line.rating.raw is not None
    return [(line.view, line.item, line.draw)] if asked else []


ITEMS = Ledger("items.jsonl", RatedItem, lambda line: line.id, about="items")
RATINGS = Ledger("ratings.jsonl", RatingLine, lambda line: line.key, Needs(VIEWS, _view_of), column=2)
COSTS = Ledger("costs.jsonl", Cost, lambda line: line.rm, about="nobody")
LEDGERS = (ITEMS, PARTS, VIEWS, RATINGS)


def rating_line(rm: str, view: str, item: str, draw: int, rating: Rating) -> RatingLine:
    """A line of `ratings.jsonl`."""
    return RatingLine(rm=rm, view=view, item=item, draw=draw, rating=rating)


def rated_item(item: Comparison, benchmark: Benchmark) -> RatedItem:
    """The comparison as a run keeps it."""
    traits = benchmark.users[item.user_id].demographics
    return RatedItem(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        responses=item.responses,
        preferred=item.preferred,
        category=item.category,
        difficulty=item.difficulty,
        contrast=item.contrast,
        twin=item.twin,
        group=item.group,
        traits={name: value for name, value in traits.items() if isinstance(value, str)},
    )


def presented_order(item: Comparison | RatedItem, seed: int) -> list[int]:
    """The order in which a model sees the responses.

    It depends on the item's own id (twins share one) and on the seed, never on the rest of the list,
    so that dropping one item changes no other; and it starts from the texts in alphabetical order, so
    that where the preferred response stands in the file tells nothing.
    """
    return list(_presented_order(min(item.id, item.twin) if item.twin else item.id, item.responses, seed))


@lru_cache(maxsize=2**16)
def _presented_order(key: str, responses: tuple[str, ...], seed: int) -> tuple[int, ...]:
    """Kept, since every model asks for it under every view."""
    order = sorted(range(len(responses)), key=lambda index: responses[index])
    random.Random(seeded(seed, key)).shuffle(order)
    return tuple(order)


def make_ask(item: Comparison, view: View, seed: int) -> Ask:
    """The comparison as a model is asked it, without its label."""
    order = presented_order(item, seed)
    return Ask(
        id=item.id,
        prompt=item.prompt,
        responses=tuple(item.responses[index] for index in order),
        view=view,
        shown=tuple(item.shown[index] for index in order) if item.shown else None,
    )


def in_benchmark_order(rating: Rating, item: Comparison | RatedItem, seed: int) -> Rating:
    """The rating with its numbers put back into the order of the benchmark's file."""
    order = presented_order(item, seed)
    if order == sorted(order):
        return rating

    def restored(numbers: Sequence[float] | None) -> list[float] | None:
        if numbers is None:
            return None
        return [number for _, number in sorted(zip(order, numbers, strict=True))]

    return msgspec.structs.replace(rating, scores=restored(rating.scores), probabilities=restored(rating.probabilities))
