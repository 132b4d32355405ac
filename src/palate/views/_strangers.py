"""Who stands in for a user in the controls `swapped` and `co-annotator`."""

from __future__ import annotations

import math
import random
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palate.data import Digests, History, Item, digest_of, responses_of, text_key
from palate.records import Benchmark, Comparison, Judgement

Closeness = Literal["same pair", "topic and batch", "topic", "batch", "anybody"]
"""What a stranger has in common with the user: they judged the same pair, have items of the same category, were asked
some of the same questions, or nothing that is known."""

People = NDArray[np.int32]
"""People by their places in the list of all, in order."""
_MOST_KEPT = 2**24
"""People in all batches that are kept, at four bytes each."""
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
        self._users = users
        twins = {item.twin for item in whole.comparisons if item.twin}
        owners = {item.id: item.user_id for item in self._items() if item.id in twins}
        self._names = sorted(users.union(whole.users, (item.user_id for item in self._items())))
        """Everybody; below, people go by their places in this list."""
        self._places = {name: place for place, name in enumerate(self._names)}
        self._everybody = np.array([self._places[user] for user in sorted(users)], np.int32)
        self._by_category: defaultdict[str, array[int]] = defaultdict(_numbers)
        self._by_prompt: list[array[int]] = []
        self._prompts: list[array[int]] = [_numbers() for _ in self._names]
        self._authors: dict[str, set[str]] = {}
        self._avoided: dict[str, set[str]] = {}
        self._topic = lru_cache(maxsize=256)(self._topic_of)
        self._batches: dict[str, People] = {}
        self._kept = 0
        """How many people are in the batches that are kept."""
        prompts = Digests()
        for item in self._items():
            if item.category is not None:
                self._by_category[item.category].append(self._places[item.user_id])
            twin = owners.get(item.twin or "") if isinstance(item, Comparison) else None
            if twin is not None:
                self._avoided.setdefault(item.user_id, set()).add(twin)
        for completion in whole.completions:
            if completion.text:
                self._authors.setdefault(text_key(completion.text), set()).add(completion.user_id)
        for user, choice in self._choices(self._items()):
            number = prompts.add(digest_of(text_key(choice.prompt)))
            if number == len(self._by_prompt):
                self._by_prompt.append(_numbers())
            self._by_prompt[number].append(self._places[user])
            self._prompts[self._places[user]].append(number)

    def _items(self) -> Iterator[Item]:
        return chain[Item](self._whole.comparisons, self._whole.completions)

    def _choices(self, items: Iterable[Item]) -> Iterator[tuple[str, Item | Judgement]]:
        """What everybody was asked, in the items and before."""
        yield from ((item.user_id, item) for item in items)
        yield from ((user.id, judgement) for user in self._whole.users.values() for judgement in user.judgements)

    @cached_property
    def _by_pair(self) -> dict[object, set[str]]:
        """Who judged which two texts; only a view of co-annotators asks."""
        found: dict[object, set[str]] = {}
        for user, choice in self._choices(self._whole.comparisons):
            if isinstance(choice, Comparison | Judgement):
                found.setdefault(_pair(choice), set()).add(user)
        return found

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
        if self._authors:
            avoided |= {user for text in responses_of(item) for user in self._authors.get(text_key(text), ())}
        draw = random.Random(f"{self._seed}\x00{to or item.id}".encode("utf-8", "surrogatepass"))
        for closeness, people in self._of_pair(item) if co_annotators else self._circles(user, item.category):
            for place in sampled(draw, len(people), min(len(people), TRIED)):
                other = self._names[people[place]]
                if other in avoided:
                    continue
                avoided.add(other)
                if other in self._users and not self._history.wrote(self._whole.users[other], item):
                    yield other, closeness

    def _of_pair(self, item: Item) -> Iterator[tuple[Closeness, People]]:
        users = self._by_pair.get(_pair(item), set()) if isinstance(item, Comparison) else set()
        yield "same pair", _people([array("i", [self._places[user] for user in users])])

    def _circles(self, user: str, category: str | None) -> Iterator[tuple[Closeness, People]]:
        """From the nearest to the widest; each is worked out when it is asked for."""
        topic, batch = self._topic(category or ""), self._batch(user)
        fewer, more = sorted((topic, batch), key=len)
        there = np.searchsorted(more, fewer)
        yield "topic and batch", fewer[np.append(more, -1)[there] == fewer]
        yield "topic", topic
        yield "batch", batch
        yield "anybody", self._everybody

    def _batch(self, user: str) -> People:
        """The same people for all items of a user, kept while there is room."""
        batch = self._batches.get(user)
        if batch is None:
            batch = self._batch_of(user)
            if self._kept + len(batch) > _MOST_KEPT:
                self._batches, self._kept = {}, 0
            self._batches[user] = batch
            self._kept += len(batch)
        return batch

    def _topic_of(self, category: str) -> People:
        return _people([self._by_category[category]] if category in self._by_category else [])

    def _batch_of(self, user: str) -> People:
        """Whoever was asked one of the questions that the user was asked."""
        asked = set(self._prompts[self._places[user]]) if user in self._places else ()
        return _people([self._by_prompt[number] for number in asked])


def sampled(draw: random.Random, size: int, count: int) -> Iterator[int]:
    """What `draw.sample(range(size), count)` gives, number by number: mostly the first will do.

    >>> list(sampled(random.Random(1), 1_000, 5)) == random.Random(1).sample(range(1_000), 5)
    True
    """
    if size <= 21 + (4 ** math.ceil(math.log(count * 3, 4)) if count > 5 else 0):  # a short list is shuffled
        pool = list(range(size))
        for drawn in range(count):
            place = draw.randrange(size - drawn)
            yield pool[place]
            pool[place] = pool[size - drawn - 1]
        return
    found: set[int] = set()
    while len(found) < count:
        number = draw.randrange(size)
        if number not in found:
            found.add(number)
            yield number


def _numbers() -> array[int]:
    return array("i")


def _people(groups: Sequence[array[int]]) -> People:
    """Whoever is in one of the groups, each person once, in order."""
    return np.unique(np.concatenate([np.empty(0, np.int32), *(np.frombuffer(some, np.int32) for some in groups)]))


def _pair(choice: Comparison | Judgement) -> object:
    return text_key(choice.prompt), frozenset(map(text_key, choice.responses))
