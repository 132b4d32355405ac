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

SAME = 0.3
"""Two long texts are the same where they share this part of the word trigrams of the shorter one: copies that were cut,
added to, or each had one word in ten changed. A text holds another from this part of the other's trigrams on."""
FEWEST = 6
"""And at least this many trigrams, or all that there are: a turn of phrase is no copy."""
LONG = 8
"""Words from which texts are compared by trigrams; shorter ones have to agree word for word."""
SHORT = 3
"""A text of fewer words, such as *Yes.*, is said by many: it is the same only as an answer to the same question."""
HELD = 40
"""Characters from which a text that stands in a longer one does so because it was taken from it, and not by chance."""

Codes = NDArray[np.uint64]
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_STEP = np.uint64(0x9E3779B97F4A7C15)
_COMMON = 500
"""A trigram of more texts than this, such as *as a language*, does not by itself make two texts worth comparing."""


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


def questions(prompt: str, responses: Iterable[str]) -> frozenset[str]:
    """What a choice asks, by which its short answers are known again: the prompt, and the prompt without the responses
    that it lists.

    >>> sorted(questions("Which film? Alien or Heat", ["Alien", "Heat"]))
    ['which film alien or heat', 'which film or']
    """
    key = text_key(prompt)
    bare = f" {key} "
    for response in sorted(map(text_key, responses), key=len, reverse=True):
        while f" {response} " in bare:
            bare = bare.replace(f" {response} ", " ")
    return frozenset((key, bare.strip()))


def holds(text: str, part: str) -> bool:
    """Whether a text is or holds another, word for word or nearly; both given by their keys.

    >>> kettle = text_key("Put the dough beside the kettle, and boil it now and then.")
    >>> holds(text_key("She said: put the dough beside the kettle and boil it now and then!"), kettle)
    True
    """
    if len(part) < HELD:
        return text == part and not is_short(part)
    if len(text) < SAME * len(part) / 2:
        return False
    if part in text and f" {part} " in f" {text} ":
        return True
    wanted = _runs_of_three(part)
    if not wanted:
        return False
    there = _runs_of_three(text)
    may_miss = len(wanted) - _enough(len(wanted))
    for run in wanted:
        if run not in there:
            may_miss -= 1
            if may_miss < 0:
                return False
    return True


def _enough(trigrams: int) -> int:
    """How many trigrams of a text another has to share."""
    return max(math.ceil(SAME * trigrams), min(trigrams, FEWEST))


@lru_cache(maxsize=4096)
def _runs_of_three(key: str) -> frozenset[str]:
    """The word trigrams of a long text; none of a short one."""
    words = key.split(" ")
    if len(words) < LONG:
        return frozenset()
    return frozenset(" ".join(words[start : start + 3]) for start in range(len(words) - 2))


class SameTexts:
    """Some texts, and which of them count as the same.

    >>> texts = SameTexts(["Use the oven light.", "use the oven light", "Buy a machine that bakes."])
    >>> texts.like("USE THE OVEN LIGHT!") == {texts.number("Use the oven light.")}
    True
    >>> texts.like("Something that nobody said.")
    frozenset()
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._numbers: dict[str, int] = {}
        for text in texts:
            self._numbers.setdefault(text_key(text), len(self._numbers))
        self._vocabulary: dict[str, int] = {}
        self._codes = [self._trigrams(key, learn=True) for key in self._numbers]
        self._sizes = np.array([len(codes) for codes in self._codes], np.intp)
        flat = np.concatenate([np.empty(0, np.uint64), *self._codes])
        order = np.argsort(flat, kind="stable")
        self._flat = flat[order]
        self._owners = np.repeat(np.arange(len(self._codes)), self._sizes)[order]
        self._found: dict[int, frozenset[int]] = {}

    def number(self, text: str) -> int | None:
        """By which number a text goes here; None for one that was not given."""
        return self._numbers.get(text_key(text))

    def like(self, text: str) -> frozenset[int]:
        """The numbers of the texts that count as the same as this one, itself among them."""
        key = text_key(text)
        number = self._numbers.get(key)
        if number is None:
            return self._like(self._trigrams(key))
        if number not in self._found:
            self._found[number] = self._like(self._codes[number]) | {number}
        return self._found[number]

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

    def _like(self, codes: Codes) -> frozenset[int]:
        if not len(codes):
            return frozenset()
        starts, ends = (np.searchsorted(self._flat, codes, side=side) for side in ("left", "right"))
        rare = (ends > starts) & (ends - starts <= _COMMON)
        met = [self._owners[start:end] for start, end in zip(starts[rare], ends[rare], strict=True)]
        if not met:
            return frozenset()
        others, shared = np.unique(np.concatenate(met), return_counts=True)
        common = int(np.count_nonzero(ends - starts > _COMMON))
        found = []
        for other, rarely in zip(others.tolist(), shared.tolist(), strict=True):
            enough = _enough(min(len(codes), len(self._codes[other])))
            if rarely + common < enough:
                continue
            if common:
                rarely = len(np.intersect1d(codes, self._codes[other], assume_unique=True))
            if rarely >= enough:
                found.append(other)
        return frozenset(found)
