"""When two texts count as the same.

A response that stands in somebody's history again tells which response they will take: rankings expanded to pairs,
merged files and answers that were generated again all do this. Views leave such history out, splits keep such choices
together, and the checks of a benchmark count them.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import count

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
Numbers = NDArray[np.int64]
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_STEP = np.uint64(0x9E3779B97F4A7C15)
_COMMON = 500
"""A trigram of more texts than this, such as *as a language*, does not by itself make two texts worth comparing."""
_AT_ONCE = 2**21
"""Pairs of texts that are compared at once, which keeps memory small."""


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

    def number(self, text: str) -> int | None:
        """By which number a text goes here; None for one that was not given."""
        return self._numbers.get(text_key(text))

    def like(self, text: str) -> frozenset[int]:
        """The numbers of the texts that count as the same as this one, itself among them."""
        key = text_key(text)
        number = self._numbers.get(key)
        if number is None:
            return self._trigrams.like(key)
        return self._same.get(number) or frozenset((number,))

    @cached_property
    def _trigrams(self) -> _Trigrams:
        return _Trigrams(self._numbers)

    @cached_property
    def _same(self) -> dict[int, frozenset[int]]:
        """Of the texts that others are the same as, those others and themselves. The trigrams are not kept."""
        found: dict[int, set[int]] = {}
        for one, other in zip(*map(np.ndarray.tolist, _Trigrams(self._numbers).same_pairs()), strict=True):
            found.setdefault(one, {one}).add(other)
            found.setdefault(other, {other}).add(one)
        return {number: frozenset(same) for number, same in found.items()}


class _Trigrams:
    """Which texts, given by their keys, hold which run of three words. Texts of few words have none."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._vocabulary: defaultdict[str, int] = defaultdict(count(1).__next__)
        words, lengths = array("I"), array("I")
        for key in keys:
            own = key.split(" ")
            lengths.append(len(own) if len(own) >= LONG else 0)
            if len(own) >= LONG:
                words.extend(map(self._vocabulary.__getitem__, own))
        self._vocabulary.default_factory = None
        texts = np.repeat(np.arange(len(lengths), dtype=np.int32), np.frombuffer(lengths, np.uint32))
        inside = texts[2:] == texts[:-2]
        codes, owners = _codes(np.frombuffer(words, np.uint32))[inside], texts[2:][inside]
        order = np.argsort(codes, kind="stable")
        codes, owners = codes[order], owners[order]
        first = np.ones(len(codes), bool)
        first[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
        codes, owners = codes[first], owners[first]
        new = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])[: len(codes)])
        self._codes = codes[new]
        """Every trigram once, in order."""
        self._bounds = np.concatenate([new, [len(codes)]])
        """Where in `_owners` the texts of each trigram begin, and where the last ones end."""
        self._owners = owners
        self._sizes = np.bincount(owners, minlength=len(lengths))

    def like(self, key: str) -> frozenset[int]:
        """The texts that count as the same as one that is not among them."""
        words = key.split(" ")
        if len(words) < LONG:
            return frozenset()
        codes = np.unique(_codes(np.array([self._vocabulary.get(word, 0) for word in words], np.uint32)))
        places = np.searchsorted(self._codes, codes)
        known = places[places < len(self._codes)]
        known = known[self._codes[known] == codes[places < len(self._codes)]]
        bounds = zip(self._bounds[known], self._bounds[known + 1], strict=True)
        holders = [self._owners[start:end] for start, end in bounds]
        rare = [some for some in holders if len(some) <= _COMMON]
        if not rare:
            return frozenset()
        others, shared = np.unique(np.concatenate(rare), return_counts=True)
        for some in holders:
            if len(some) > _COMMON:
                shared += np.isin(others, some, assume_unique=True)
        enough = [_enough(min(len(codes), int(size))) for size in self._sizes[others]]
        return frozenset(others[shared >= enough].tolist())

    def same_pairs(self) -> tuple[Numbers, Numbers]:
        """Every two texts that count as the same, each pair once.

        The shorter of two that are the same shares at least `_enough` of its trigrams, and so one of any few more than
        it may miss. Only those pairs are compared that have one of the shorter text's rarest in common.
        """
        counts = np.diff(self._bounds)
        trigrams = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        rarity = np.minimum(counts, _COMMON + 1).astype(np.uint16)[trigrams]
        order = np.argsort(rarity, kind="stable")
        order = order[_in_order(self._owners[order])]
        ends = np.cumsum(self._sizes)
        starts = ends - self._sizes
        by_size = np.array([_enough(size) for size in range(int(self._sizes.max(initial=0)) + 1)])
        needed = by_size[self._sizes]
        owners = self._owners[order]
        place = np.arange(len(order)) - starts[owners]
        telling = (place <= (self._sizes - needed)[owners]) & (rarity[order] <= _COMMON) & (rarity[order] > 1)
        own_trigrams = trigrams[order]  # of each text, the rarest first
        pairs = [np.empty((2, 0), np.int64)]
        for some in _parts(counts[own_trigrams[telling]]):
            held, number = own_trigrams[telling][some], owners[telling][some]
            one = np.repeat(number, counts[held])
            other = self._owners[_runs(self._bounds[held], counts[held])]
            sizes = self._sizes[one], self._sizes[other]
            shorter = (sizes[0] < sizes[1]) | ((sizes[0] == sizes[1]) & (one < other))
            met = np.unique(one[shorter].astype(np.int64) * len(self._sizes) + other[shorter])
            pairs += self._sharing_enough(met, own_trigrams, starts, needed)
        one, other = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return one, other

    def _sharing_enough(
        self, met: Numbers, own_trigrams: NDArray[np.int32], starts: Numbers, needed: Numbers
    ) -> Iterator[Numbers]:
        """Those of the pairs in which the first, the shorter text, shares as many trigrams as are needed."""
        ones, others = np.divmod(met, max(1, len(self._sizes)))
        for some in _parts(self._sizes[ones]):
            one, other = ones[some], others[some]
            sizes = self._sizes[one]
            wanted = own_trigrams[_runs(starts[one], sizes)]
            shared = self._holds(wanted, np.repeat(other, sizes))
            totals = np.add.reduceat(shared, np.cumsum(sizes) - sizes) if len(one) else sizes
            yield np.stack([one, other])[:, totals >= needed[one]]

    def _holds(self, trigrams: NDArray[np.int32], texts: Numbers) -> Numbers:
        """1 where the text holds the trigram, else 0: a search for the text among the holders, all at once."""
        low, end = self._bounds[trigrams], self._bounds[trigrams + 1]
        high = end.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            below = (low < high) & (self._owners[np.minimum(middle, len(self._owners) - 1)] < texts)
            high = np.where(below | (low >= high), high, middle)
            low = np.where(below, middle + 1, low)
        there = self._owners[np.minimum(low, len(self._owners) - 1)] == texts
        return np.asarray((low < end) & there, np.int64)


def _codes(words: NDArray[np.uint32]) -> Codes:
    """A number for each run of three words."""
    codes = words[:-2].astype(np.uint64)
    for following in (words[1:-1], words[2:]):
        codes *= _STEP
        codes += following
    return codes


def _in_order(numbers: NDArray[np.int32]) -> Numbers:
    """The stable order of numbers below 2^32, sixteen bits at a time, which numpy sorts in linear time."""
    order = np.argsort((numbers & 0xFFFF).astype(np.uint16), kind="stable")
    return order[np.argsort((numbers[order] >> 16).astype(np.uint16), kind="stable")]


def _runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """The places of runs that begin at these places and are so long, one after another."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))


def _parts(sizes: Numbers) -> Iterator[slice]:
    """Slices of a sequence that each add up to little more than `_AT_ONCE`."""
    codes = (np.cumsum(sizes) - sizes) // _AT_ONCE
    ends = [*np.flatnonzero(np.diff(codes)) + 1, len(codes)]
    yield from (slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))
