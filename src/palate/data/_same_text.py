"""When two texts count as the same.

A response that stands in somebody's history again tells which response they will take: rankings expanded to pairs,
merged files and answers that were generated again all do this. Views leave such history out, splits keep such choices
together, and the checks of a benchmark count them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

SAME = 0.8
"""Two long texts are the same from this Jaccard similarity of their word trigrams on; one holds another from this
share of the other's trigrams on."""
LONG = 8
"""Words from which texts are compared by trigrams; shorter ones have to agree word for word."""
SHORT = 3
"""A text of fewer words, such as *Yes.*, is said by many: it is the same only as an answer to the same prompt."""
HELD = 40
"""Characters from which a text that stands in a longer one does so because it was taken from it, and not by chance."""

Codes = NDArray[np.uint64]
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_STEP = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=20_000)
def text_key(text: str) -> str:
    """A text as it is compared: its words, without case, spacing and punctuation; of a text without words, itself.

    >>> text_key("Use the  oven-light!")
    'use the oven light'
    """
    return " ".join(_WORD.findall(text.casefold())) or " ".join(text.split())


def is_short(key: str) -> bool:
    """Whether a text, given by its key, says too little to be known again by itself."""
    return key.count(" ") < SHORT - 1


def holds(text: str, part: str) -> bool:
    """Whether a text is or holds another, word for word or nearly; both given by their keys.

    >>> kettle = text_key("Put the dough beside the kettle, and boil it now and then.")
    >>> holds(text_key("She said: put the dough beside the kettle and boil it now and then!"), kettle)
    True
    """
    if len(part) < HELD:
        return text == part and not is_short(part)
    if len(text) < SAME * SAME * len(part):
        return False
    if part in text and f" {part} " in f" {text} ":
        return True
    wanted = _runs_of_three(part)
    if not wanted:
        return False
    there = _runs_of_three(text)
    may_miss = len(wanted) - math.ceil(SAME * len(wanted))
    for run in wanted:
        if run not in there:
            may_miss -= 1
            if may_miss < 0:
                return False
    return True


@lru_cache(maxsize=4096)
def _runs_of_three(key: str) -> frozenset[str]:
    """The word trigrams of a long text; none of a short one."""
    words = key.split(" ")
    if len(words) < LONG:
        return frozenset()
    return frozenset(" ".join(words[start : start + 3]) for start in range(len(words) - 2))


class SameTexts:
    """Groups of texts that count as the same, directly or through others.

    >>> texts = SameTexts(["Use the oven light.", "use the oven light", "Buy a machine that bakes."])
    >>> texts.groups("USE THE OVEN LIGHT!") == texts.groups("Use the oven light.")
    True
    >>> texts.groups("Something that nobody said.")
    frozenset()
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._place: dict[str, int] = {}
        for text in texts:
            self._place.setdefault(text_key(text), len(self._place))
        self._vocabulary: dict[str, int] = {}
        self._codes = [self._trigrams(key, learn=True) for key in self._place]
        every = np.concatenate([np.empty(0, np.uint64), *self._codes])
        self._known, self._counts = np.unique(every, return_counts=True)
        self._postings: dict[int, list[int]] = {}
        pairs = []
        for place, codes in enumerate(self._codes):
            pairs += [(place, other) for other in self._like(codes)]
            for code in self._prefix(codes):
                self._postings.setdefault(int(code), []).append(place)
        rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
        size = len(self._place)
        graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(size, size))
        self._group: list[int] = connected_components(graph, directed=False)[1].tolist() if size else []

    def groups(self, text: str) -> frozenset[int]:
        """The group of a text; of a text that is new here, the groups of those that it is like."""
        key = text_key(text)
        place = self._place.get(key)
        if place is not None:
            return frozenset((self._group[place],))
        return frozenset(self._group[other] for other in self._like(self._trigrams(key)))

    def _trigrams(self, key: str, *, learn: bool = False) -> Codes:
        """A number for each distinct run of three words; none for a text of few words."""
        words = key.split(" ")
        if len(words) < LONG:
            return np.empty(0, np.uint64)
        if learn:
            for word in words:
                self._vocabulary.setdefault(word, len(self._vocabulary) + 1)
        codes = np.array([self._vocabulary.get(word, 0) for word in words], np.uint64)
        return np.unique((codes[:-2] * _STEP + codes[1:-1]) * _STEP + codes[2:])

    def _prefix(self, codes: Codes) -> Codes:
        """The rarest trigrams, as many as guarantee that two like texts have one of them in common."""
        if not len(codes):
            return codes
        places = np.minimum(np.searchsorted(self._known, codes), len(self._known) - 1)
        counts = np.where(self._known[places] == codes, self._counts[places], 0) if len(self._known) else codes * 0
        rarest = codes[np.lexsort((codes, counts))]
        return rarest[: len(codes) - math.ceil(SAME * len(codes)) + 1]

    def _like(self, codes: Codes) -> list[int]:
        """The places of the texts met so far that are the same as the one with these trigrams."""
        met = {place for code in self._prefix(codes) for place in self._postings.get(int(code), ())}
        return [place for place in sorted(met) if _jaccard(codes, self._codes[place]) >= SAME]


def _jaccard(one: Codes, other: Codes) -> float:
    if min(len(one), len(other)) < SAME * max(len(one), len(other)):
        return 0.0
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)
