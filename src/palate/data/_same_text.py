"""When two texts count as the same.

A response that stands in somebody's history again tells which response they will take: rankings expanded to pairs,
merged files and answers that were generated again all do this. Views leave such history out, splits keep such choices
together, and the checks of a benchmark count them.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from palate.data._digests import Digests, digest_of
from palate.data._on_disk import Unnamed

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
_READINGS = 8
"""How often the words of many texts are read, to compare a part of them at a time."""


@lru_cache(maxsize=20_000)
def text_key(text: str) -> str:
    """A text as it is compared: its words, without case, spacing and punctuation; of a text without words, itself.

    >>> text_key("Use the  oven-light!")
    'use the oven light'
    """
    return _key(text)


def _key(text: str) -> str:
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
        self._digests = Digests()
        self._words = _Words()
        given, short = array("I"), array("b")
        for text in texts:
            key = _key(text)
            given.append(self._digests.add(_digest(key)))
            if given[-1] == len(short):
                self._words.add(key)
                short.append(is_short(key))
        self._given = given
        self.short = np.frombuffer(short, np.bool_)
        """By number, whether a text says too little to be known again by itself."""

    @property
    def given(self) -> Numbers:
        """The number of each text, in the order in which they were given."""
        return np.frombuffer(self._given, np.uint32).astype(np.int64)

    def number(self, text: str) -> int | None:
        """By which number a text goes here; None for one that was not given."""
        return self._digests.number(_digest(text_key(text)))

    def like(self, text: str) -> frozenset[int]:
        """The numbers of the texts that count as the same as this one, itself among them."""
        number = self.number(text)
        return self._trigrams.like(text_key(text)) if number is None else self.same(number)

    def same(self, number: int) -> frozenset[int]:
        """The numbers of the texts that count as the same as the text of this number, itself among them."""
        ones, others = self._same
        first, end = bisect_left(ones, number), bisect_right(ones, number)
        return frozenset((number, *others[first:end]))

    def pairs(self) -> tuple[Numbers, Numbers]:
        """Every two texts that count as the same, by their numbers, each pair once."""
        return _Trigrams(self._words, shared=True).same_pairs()

    @cached_property
    def _trigrams(self) -> _Trigrams:
        return _Trigrams(self._words)

    @cached_property
    def _same(self) -> tuple[memoryview, memoryview]:
        """Every text that others are the same as, in order, and each of the others."""
        one, other = self.pairs()
        ones, others = np.concatenate([one, other]), np.concatenate([other, one])
        order = np.argsort(ones)
        return ones[order].data, others[order].data


def _digest(key: str) -> bytes:
    return digest_of(key.encode("utf-8", "surrogatepass"))


class _Words:
    """The words of texts as numbers, one text after another; a text of few words has none here.

    Of many texts they lie in a file without a name.
    """

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._words, self._lengths = array("I"), array("I")
        self._file: Unnamed | None = None
        self.count = 0
        """How many words there are."""

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, key: str) -> None:
        words, vocabulary = key.split(" "), self._vocabulary
        if len(words) < LONG:
            words = []
        self._lengths.append(len(words))
        self._words.extend([vocabulary.setdefault(word, len(vocabulary) + 1) for word in words])
        self.count += len(words)
        if len(self._words) > _AT_ONCE:
            self._file = self._file or Unnamed()
            self._file.write(self._words)
            self._words = array("I")

    def known(self, words: Iterable[str]) -> NDArray[np.uint32]:
        """The numbers of some words; 0 for one that is in none of the texts."""
        return np.array([self._vocabulary.get(word, 0) for word in words], np.uint32)

    def blocks(self) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """All words, some at a time with the two that follow, and the place of the first."""
        written = self.count - len(self._words)
        for start in range(0, self.count, _AT_ONCE):
            end = min(start + _AT_ONCE + 2, self.count)
            there = max(0, min(end, written) - start)
            content = self._file.read(4 * start, 4 * there) if self._file and there else b""
            rest = self._words[start + there - written : end - written]
            yield start, np.frombuffer(content + rest.tobytes(), np.uint32)

    @property
    def lengths(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._lengths, np.uint32)


class _Trigrams:
    """Which texts hold which run of three words. Texts of few words have none.

    With `shared`, only runs that several texts hold are kept, which is all that `same_pairs` needs. Runs are sorted a
    part at a time, so that time grows with the number of texts and little memory is needed beside what is kept.
    """

    def __init__(self, texts: _Words, *, shared: bool = False) -> None:
        self._texts = texts
        ends = np.cumsum(texts.lengths, dtype=np.int64)
        self._sizes = np.zeros(len(texts), np.int32)
        """How many different trigrams each text has."""
        self._own = np.full(texts.count, -1, np.int32) if shared else None
        """The number of each word's trigram where it is kept; of two that are alike in a text, the first."""
        kept = 0
        codes, counts, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for places, code in _by_code(texts, ends):
            order = np.argsort(code, kind="stable")
            owner = np.searchsorted(ends, places, side="right").astype(np.int32)[order]
            places, code = places[order], code[order]
            again = (code[1:] == code[:-1]) & (owner[1:] == owner[:-1])
            first = np.flatnonzero(np.concatenate([np.ones(min(1, len(code)), bool), ~again]))
            places, code, owner = places[first], code[first], owner[first]
            self._sizes += np.bincount(owner, minlength=len(texts)).astype(np.int32)
            new = np.flatnonzero(np.concatenate([np.ones(min(1, len(code)), bool), code[1:] != code[:-1]]))
            count = np.diff(np.append(new, len(code))).astype(np.int32)
            if self._own is not None:
                several = np.repeat(count > 1, count)
                places, owner, new, count = places[several], owner[several], new[count > 1], count[count > 1]
                self._own[places] = np.repeat(np.arange(kept, kept + len(count), dtype=np.int32), count)
                kept += len(count)
            else:
                codes.append(code[new])
            counts.append(count)
            owners.append(owner)
        self._codes = np.concatenate(codes)
        """Every trigram once, in order; none with `shared`."""
        self._counts = np.concatenate(counts)
        """How many texts hold each."""
        self._bounds = np.concatenate([[0], np.cumsum(self._counts, dtype=np.int64)])
        """Where in `_owners` the texts of each trigram begin, and where the last ones end."""
        self._owners = np.concatenate(owners)

    def like(self, key: str) -> frozenset[int]:
        """The texts that count as the same as one that is not among them."""
        words = key.split(" ")
        if len(words) < LONG:
            return frozenset()
        numbers = self._texts.known(words)
        codes = np.unique(_codes(numbers[:-2], numbers[1:-1], numbers[2:]))
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
        """Every two texts that count as the same, each pair once; needs what `shared` keeps, and uses it up.

        The shorter of two that are the same shares at least `_enough` of its trigrams, and so one of any few more than
        it may miss. Only those pairs are compared that have one of the shorter text's rarest in common.
        """
        own, bounds = self._by_text()
        there = np.diff(bounds)
        needed = np.array([_enough(size) for size in range(int(self._sizes.max(initial=0)) + 1)])[self._sizes]
        # What no other text holds is rarer than all of these, so as many fewer of these have to be looked up.
        telling = there - needed + 1
        pairs = [np.empty((2, 0), np.int64)]
        for texts in _parts(there):
            held, owners = self._rarest(own, bounds, texts, telling)
            for some in _parts(self._counts[held]):
                one = np.repeat(owners[some], self._counts[held[some]])
                other = self._owners[_runs(self._bounds[held[some]], self._counts[held[some]])]
                sizes = self._sizes[one], self._sizes[other]
                shorter = (sizes[0] < sizes[1]) | ((sizes[0] == sizes[1]) & (one < other))
                met = np.unique(one[shorter].astype(np.int64) * len(there) + other[shorter])
                pairs += self._sharing_enough(met, own, bounds, needed)
        one, other = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return one, other

    def _by_text(self) -> tuple[NDArray[np.int32], Numbers]:
        """The trigrams that are kept of each text, one text after another, and where each text's begin and end."""
        assert self._own is not None
        own, self._own, end = self._own, None, 0
        for start in range(0, len(own), _AT_ONCE):  # moved up in place, since there are many
            some = own[start : start + _AT_ONCE]
            some = some[some >= 0]
            own[end : end + len(some)] = some
            end += len(some)
        lengths = np.bincount(self._owners, minlength=len(self._texts))
        return own[:end], np.concatenate([[0], np.cumsum(lengths)])

    def _rarest(
        self, own: NDArray[np.int32], bounds: Numbers, texts: slice, most: Numbers
    ) -> tuple[NDArray[np.int32], Numbers]:
        """Of each of these texts at most that many trigrams, the rarest, less those that are common; and the texts."""
        some = own[bounds[texts.start] : bounds[texts.stop]]
        owners = np.repeat(np.arange(texts.start, texts.stop), np.diff(bounds[texts.start : texts.stop + 1]))
        rarity = np.minimum(self._counts[some], _COMMON + 1)
        order = np.argsort(owners * (_COMMON + 2) + rarity)
        place = np.arange(len(some)) - (bounds[owners] - bounds[texts.start])
        kept = (place < most[owners]) & (rarity[order] <= _COMMON)
        return some[order][kept], owners[kept]

    def _sharing_enough(
        self, met: Numbers, own: NDArray[np.int32], bounds: Numbers, needed: Numbers
    ) -> Iterator[Numbers]:
        """Those of the pairs in which the first, the shorter text, shares as many trigrams as are needed."""
        ones, others = np.divmod(met, max(1, len(self._sizes)))
        for some in _parts(bounds[ones + 1] - bounds[ones]):
            one, other = ones[some], others[some]
            sizes = bounds[one + 1] - bounds[one]
            shared = self._holds(own[_runs(bounds[one], sizes)], np.repeat(other, sizes))
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


def _codes(first: NDArray[np.uint32], second: NDArray[np.uint32], third: NDArray[np.uint32]) -> Codes:
    """A number for each run of three words."""
    codes = first.astype(np.uint64)
    for following in (second, third):
        codes *= _STEP
        codes += following
    return codes


def _by_code(texts: _Words, ends: Numbers) -> Iterator[tuple[Numbers, Codes]]:
    """The places and codes of all runs of three words that lie in one text, in parts by the first bits of their codes.

    The words are read several times, so that only some parts have to be held at once.
    """
    inside = np.ones(texts.count, bool)
    last = ends[np.diff(ends, prepend=0) > 0]
    inside[last - 1] = inside[last - 2] = False
    bits = (texts.count // _AT_ONCE).bit_length()
    held = max(1, 2**bits // _READINGS)
    kind = np.int32 if texts.count < 2**31 else np.int64
    for first in range(0, 2**bits, held):
        parts: list[list[tuple[NDArray[np.int32 | np.int64], Codes]]] = [[] for _ in range(held)]
        for start, words in texts.blocks():
            places = np.flatnonzero(inside[start : start + _AT_ONCE])
            codes = _codes(words[places], words[places + 1], words[places + 2])
            part = (codes >> np.uint64(64 - bits)).astype(np.int32) - first if bits else np.zeros(len(codes), np.int32)
            wanted = (part >= 0) & (part < held)
            places, codes, part = places[wanted], codes[wanted], part[wanted]
            order = np.argsort(part, kind="stable")
            places, codes = (places[order] + start).astype(kind), codes[order]
            bounds = np.searchsorted(part[order], np.arange(held + 1))
            for number, (low, high) in enumerate(pairwise(bounds.tolist())):
                parts[number].append((places[low:high].copy(), codes[low:high].copy()))
        for part_of in parts:
            none = np.empty(0, np.int64), np.empty(0, np.uint64)
            together = zip(none, *part_of, strict=True)
            places, codes = map(np.concatenate, together)
            part_of.clear()
            yield places, codes


def _runs(starts: Numbers, lengths: NDArray[np.int32 | np.int64]) -> Numbers:
    """The places of runs that begin at these places and are so long, one after another."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))


def _parts(sizes: NDArray[np.int32 | np.int64]) -> Iterator[slice]:
    """Slices of a sequence that each add up to little more than `_AT_ONCE`."""
    codes = (np.cumsum(sizes) - sizes) // _AT_ONCE
    ends = [*np.flatnonzero(np.diff(codes)) + 1, len(codes)]
    yield from (slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))
