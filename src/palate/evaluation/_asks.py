"""From comparisons to asks: which items, and in which order their responses are presented."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from palate.evaluation._run import RatedItem
from palate.records import Ask, Comparison, Rating, View
from palate.runs import seeded


def presented_order(item: Comparison | RatedItem, seed: int) -> list[int]:
    """The order in which a model sees the responses.

    It depends on the item's own id (twins share one) and on the seed, never on the rest of the list,
    so that dropping one item changes no other; and it starts from the texts in alphabetical order, so
    that where the preferred response stands in the file tells nothing.
    """
    key = min(item.id, item.twin) if item.twin else item.id
    order = sorted(range(len(item.responses)), key=lambda index: item.responses[index])
    random.Random(seeded(seed, key)).shuffle(order)
    return order


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

    def restored(numbers: Sequence[float] | None) -> list[float] | None:
        if numbers is None:
            return None
        return [number for _, number in sorted(zip(order, numbers, strict=True))]

    return msgspec.structs.replace(rating, scores=restored(rating.scores), probabilities=restored(rating.probabilities))
