"""Who stands in for a user in the controls `swapped` and `co-annotator`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from palate.data import History, Item, responses_of, text_key
from palate.records import Benchmark, Comparison, Judgement

Closeness = Literal["same pair", "topic and batch", "topic", "batch", "anybody"]
"""What a stranger has in common with the user: they judged the same pair, have items of the same category, were asked
some of the same questions, or nothing that is known."""

TRIED = 60
"""Strangers drawn from each circle before the next is tried."""


class Strangers:
    """Draws strangers for each item by itself, the nearest circle first.

    They share the item's category and some of the user's questions where anybody does, so that the control differs
    in the person and not merely in the subject or the batch. Never a stranger: the user, an author of one of the
    responses, and whoever answers a twin of one of the user's items.
    """

    def __init__(self, whole: Benchmark, users: set[str], history: History, *, seed: int) -> None:
        self._whole, self._history, self._seed = whole, history, seed
        self._users, self._everybody = users, sorted(users)
        self._by_category: dict[str, set[str]] = {}
        self._by_prompt: dict[str, set[str]] = {}
        self._by_pair: dict[object, set[str]] = {}
        self._prompts: dict[str, set[str]] = {}
        self._authors: dict[str, set[str]] = {}
        self._avoided: dict[str, set[str]] = {}
        self._circles = lru_cache(maxsize=256)(self._circles_of)
        items: list[Item] = [*whole.comparisons, *whole.completions]
        owners = {item.id: item.user_id for item in items}
        for item in items:
            if item.category is not None:
                self._by_category.setdefault(item.category, set()).add(item.user_id)
            self._met(item.user_id, item)
            twin = owners.get(item.twin or "") if isinstance(item, Comparison) else None
            if twin is not None:
                self._avoided.setdefault(item.user_id, set()).add(twin)
        for completion in whole.completions:
            if completion.text:
                self._authors.setdefault(text_key(completion.text), set()).add(completion.user_id)
        for user in whole.users.values():
            for judgement in user.judgements:
                self._met(user.id, judgement)

    def _met(self, user: str, choice: Item | Judgement) -> None:
        prompt = text_key(choice.prompt)
        self._by_prompt.setdefault(prompt, set()).add(user)
        self._prompts.setdefault(user, set()).add(prompt)
        if isinstance(choice, Comparison | Judgement):
            self._by_pair.setdefault(_pair(choice), set()).add(user)

    def share_pairs(self, items: Iterable[Comparison]) -> bool:
        """Whether the pair of any of these items was judged by somebody else who is not the user's twin."""
        return any(
            self._by_pair.get(_pair(item), set()) - {item.user_id} - self._avoided.get(item.user_id, set())
            for item in items
        )

    def of(self, item: Item, *, co_annotators: bool = False, to: str | None = None) -> Iterator[tuple[str, Closeness]]:
        """Strangers for this item with what they share with the user, the nearest circle first.

        With `to`, strangers to that person, who are the same for all items of a category, and to the user.
        """
        user = to or item.user_id
        avoided = {item.user_id, user, *self._avoided.get(item.user_id, ()), *self._avoided.get(user, ())}
        avoided |= {user for text in responses_of(item) for user in self._authors.get(text_key(text), ())}
        draw = random.Random(f"{self._seed}\x00{to or item.id}".encode("utf-8", "surrogatepass"))
        for closeness, users in self._of_pair(item) if co_annotators else self._circles(user, item.category):
            for other in draw.sample(users, min(len(users), TRIED)):
                if other in avoided:
                    continue
                avoided.add(other)
                if other in self._users and not self._history.wrote(self._whole.users[other], item):
                    yield other, closeness

    def _of_pair(self, item: Item) -> list[tuple[Closeness, list[str]]]:
        users = self._by_pair.get(_pair(item), set()) if isinstance(item, Comparison) else set()
        return [("same pair", sorted(users))]

    def _circles_of(self, user: str, category: str | None) -> list[tuple[Closeness, list[str]]]:
        topic = self._by_category.get(category or "", set())
        batch = {other for prompt in self._prompts.get(user, ()) for other in self._by_prompt[prompt]}
        return [
            ("topic and batch", sorted(topic & batch)),
            ("topic", sorted(topic)),
            ("batch", sorted(batch)),
            ("anybody", self._everybody),
        ]


def _pair(choice: Comparison | Judgement) -> object:
    return text_key(choice.prompt), frozenset(map(text_key, choice.responses))
