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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.data._digests import Digests, digest_of
from palate.data._on_disk import Buckets, Unnamed

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
"""Words, and holders of runs of words, that are in memory at once."""
_MET = 2**24
"""Pairs of texts that are counted at once."""
_HELD = 2**23
"""Bytes from which what is compared lies in files."""
_NEAR = 1_024
"""Words between two texts that are read rather than passed over."""
_RUN = np.dtype([("code", "<u8"), ("text", "<u4")])
_SHARED = np.dtype([("text", "<u4"), ("start", "<i8"), ("holders", "<u2")])
"""A text, and of a run of three words that it holds, where the texts that hold it begin and how many they are."""


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
            given.append(self._digests.add(digest_of(key)))
            if given[-1] == len(short):
                self._words.add(key)
                short.append(is_short(key))
        self._words.settle()
        self._given = given
        self.short = np.frombuffer(short, np.bool_)
        """By number, whether a text says too little to be known again by itself."""

    @property
    def given(self) -> Numbers:
        """The number of each text, in the order in which they were given."""
        return np.frombuffer(self._given, np.uint32).astype(np.int64)

    def number(self, text: str) -> int | None:
        """By which number a text goes here; None for one that was not given."""
        return self._digests.number(digest_of(text_key(text)))

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
        return _Pairs(self._words).found()

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


class _Words:
    """The words of texts as numbers, one text after another; a text of few words has none here.

    Of many texts they lie in a file without a name.
    """

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._recent, self._lengths = array("I"), array("I")
        self._file = Unnamed(_HELD)
        self.firsts = [0]
        """The first text of each block of texts, and of one that would follow."""
        self.count = 0
        """How many words there are."""

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, key: str) -> None:
        words, vocabulary = key.split(" "), self._vocabulary
        if len(words) < LONG:
            words = []
        self._lengths.append(len(words))
        self._recent.extend([vocabulary.setdefault(word, len(vocabulary) + 1) for word in words])
        self.count += len(words)
        if len(self._recent) > _AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """End a block of texts."""
        if self.firsts[-1] < len(self):
            self._file.write(self._recent)
            self._recent = array("I")
            self.firsts.append(len(self))

    def known(self, words: Iterable[str]) -> NDArray[np.uint32]:
        """The numbers of some words; 0 for one that is in none of the texts."""
        return np.array([self._vocabulary.get(word, 0) for word in words], np.uint32)

    def runs(self) -> Iterator[tuple[NDArray[np.uint32], Codes]]:
        """The texts and codes of all runs of three words that lie in one text, a block at a time."""
        start = 0
        for first, end in pairwise(self.firsts):
            lengths = self.lengths[first:end]
            length = int(lengths.sum(dtype=np.int64))
            texts, codes = _runs_in(lengths, np.frombuffer(self._file.read(4 * start, 4 * length), np.uint32))
            yield texts + np.uint32(first), codes
            start += length

    def runs_of(self, texts: Numbers) -> tuple[NDArray[np.uint32], Codes]:
        """The same of some texts, in order and each once; the texts go by their places among these."""
        lengths = self.lengths[texts]
        starts = self._starts[texts]
        ends = starts + lengths
        # What lies near to each other is read at once.
        breaks = np.flatnonzero(starts[1:] - ends[:-1] > _NEAR) + 1
        words = []
        for low, high in pairwise([0, *breaks.tolist(), len(texts)]):
            start, end = int(starts[low]), int(ends[high - 1])
            content = np.frombuffer(self._file.read(4 * start, 4 * (end - start)), np.uint32)
            words.append(content[_ranges(starts[low:high] - start, lengths[low:high])])
        return _runs_in(lengths, np.concatenate(words))

    @property
    def lengths(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._lengths, np.uint32)

    @cached_property
    def _starts(self) -> Numbers:
        """Where each text begins."""
        starts = np.cumsum(self.lengths, dtype=np.int64)
        starts -= self.lengths
        return starts


def _runs_in(lengths: NDArray[np.uint32], words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], Codes]:
    """The texts and codes of the runs of three words in texts of these lengths, one after another."""
    inside = np.ones(len(words), bool)
    last = np.cumsum(lengths, dtype=np.int64)[lengths > 0]
    inside[last - 1] = inside[last - 2] = False
    places = np.flatnonzero(inside)
    texts = np.repeat(np.arange(len(lengths), dtype=np.uint32), np.maximum(lengths, 2) - 2)
    return texts, _codes(words[places], words[places + 1], words[places + 2])


def _by_code(words: _Words) -> Iterator[tuple[Codes, NDArray[np.uint32]]]:
    """All runs of three words in the order of their codes, each with its text, once for each text: a part at a time."""
    bits = (words.count // _AT_ONCE).bit_length()
    parts = Buckets(2**bits, _RUN, _HELD)
    for texts, codes in words.runs():
        runs = np.empty(len(codes), _RUN)
        runs["code"], runs["text"] = codes, texts
        parts.add((codes >> np.uint64(64 - bits)).astype(np.uint32) if bits else np.zeros(len(codes), np.uint8), runs)
    for part in range(2**bits):
        runs = parts.read(part)
        order = np.argsort(runs["code"], kind="stable")
        codes, texts = runs["code"][order], runs["text"][order]
        new = np.ones(len(codes), bool)
        new[1:] = (codes[1:] != codes[:-1]) | (texts[1:] != texts[:-1])
        yield codes[new], texts[new]


class _Trigrams:
    """Which texts hold which run of three words, in memory. Texts of few words have none."""

    def __init__(self, words: _Words) -> None:
        self._words = words
        self._sizes = np.zeros(len(words), np.int32)
        """How many different trigrams each text has."""
        codes, counts, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.uint32)]
        for code, owner in _by_code(words):
            np.add.at(self._sizes, owner, 1)
            new, count = _groups(code)
            codes.append(code[new])
            counts.append(count)
            owners.append(owner)
        self._codes = np.concatenate(codes)
        """Every trigram once, in order."""
        self._bounds = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        """Where in `_owners` the texts of each trigram begin, and where the last ones end."""
        self._owners = np.concatenate(owners)

    def like(self, key: str) -> frozenset[int]:
        """The texts that count as the same as one that is not among them."""
        words = key.split(" ")
        if len(words) < LONG:
            return frozenset()
        numbers = self._words.known(words)
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


class _Pairs:
    """Every two texts that count as the same.

    The shorter of two that are the same shares at least `_enough` of its trigrams, and so two of any few more than it
    may miss. Only those pairs are counted that have one of the shorter text's rarest in common, and only those that
    have two in common are compared.

    Of every text little is held in memory, and of its trigrams nothing: which texts hold which lies in files without
    a name, in parts that are read one at a time, so that time grows with the number of texts.
    """

    def __init__(self, words: _Words) -> None:
        self._words = words
        self._sizes = np.zeros(len(words), np.int32)
        """How many different trigrams each text has."""
        self._common = np.zeros(len(words), np.int32)
        """How many of them are common."""
        self._left = np.zeros(len(words), np.int32)
        """Of those that other texts hold as well, how many are not looked up."""
        self._shared = Buckets(len(words.firsts) - 1, _SHARED, _HELD)
        """By blocks of texts, their trigrams that other texts hold as well and that are not common."""
        self._holders = Unnamed(_HELD)
        """The texts that hold each of those trigrams."""
        end = 0
        for codes, texts in _by_code(words):
            np.add.at(self._sizes, texts, 1)
            _, count = _groups(codes)
            counts = np.repeat(count, count)
            np.add.at(self._common, texts[counts > _COMMON], 1)
            texts = texts[(counts > 1) & (counts <= _COMMON)]
            count = count[(count > 1) & (count <= _COMMON)]
            shared = np.empty(len(texts), _SHARED)
            shared["text"], shared["holders"] = texts, np.repeat(count, count)
            shared["start"] = np.repeat(end + np.cumsum(count) - count, count)
            self._shared.add(np.searchsorted(words.firsts, texts, side="right") - 1, shared)
            self._holders.write(texts.tobytes())
            end += len(texts)
        self._needed = np.array([_enough(size) for size in range(int(self._sizes.max(initial=0)) + 1)], np.int32)
        """How many trigrams a text of so many has to share."""

    def found(self) -> tuple[Numbers, Numbers]:
        """By their numbers, each pair once, in order."""
        pairs = [np.empty((2, 0), np.int64)]
        waiting: list[NDArray[np.void]] = []
        for block, (first, end) in enumerate(pairwise(self._words.firsts)):
            waiting.append(self._rarest(block, first, end))
            if end == len(self._words) or sum(int(some["holders"].sum()) for some in waiting) > _MET:
                pairs += map(self._the_same, _by_text(np.concatenate(waiting)))
                waiting.clear()
        one, other = np.concatenate(pairs, axis=1)
        return one, other

    def _rarest(self, block: int, first: int, end: int) -> NDArray[np.void]:
        """Of each text of a block as many trigrams as have to be looked up, the rarest; text by text."""
        shared = self._shared.read(block)
        shared = shared[np.argsort(shared["text"].astype(np.int64) * (_COMMON + 1) + shared["holders"])]
        texts = shared["text"].astype(np.int64) - first
        rare, common = np.bincount(texts, minlength=end - first), self._common[first:end]
        needed = self._needed[self._sizes[first:end]]
        # What no other text holds is rarer than all of these, so as many fewer of these have to be looked up.
        most = np.where(rare + common < needed, 0, rare + common - needed + 2)
        self._left[first:end] = rare + common - np.minimum(rare, most)
        place = np.arange(len(shared)) - (np.cumsum(rare) - rare)[texts]
        return shared[place < most[texts]]

    def _the_same(self, rarest: NDArray[np.void]) -> NDArray[np.int64]:
        """Those pairs of which some texts are the shorter, given what of these is looked up."""
        rarest = rarest[np.argsort(rarest["start"])]
        met = [np.empty(0, np.int64)]
        bounds = np.searchsorted(rarest["start"], np.arange(0, int(rarest["start"].max(initial=0)) + 1, _AT_ONCE))
        for low, high in pairwise([*bounds.tolist(), len(rarest)]):
            looked_up = rarest[low:high]
            if not len(looked_up):
                continue
            start, last = int(looked_up["start"][0]), looked_up[-1]
            length = int(last["start"]) + int(last["holders"]) - start
            holders = np.frombuffer(self._holders.read(4 * start, 4 * length), np.uint32)
            for some in _parts(looked_up["holders"]):
                one = np.repeat(looked_up["text"][some], looked_up["holders"][some])
                other = holders[_ranges(looked_up["start"][some] - start, looked_up["holders"][some])]
                sizes = self._sizes[one], self._sizes[other]
                shorter = (sizes[0] < sizes[1]) | ((sizes[0] == sizes[1]) & (one < other))
                met.append(one[shorter].astype(np.int64) << 32 | other[shorter])
        both = np.concatenate(met)
        met.clear()
        both.sort()
        new, shared = _groups(both)
        found = [np.empty((2, 0), np.int64)]
        for first in range(0, len(new), _AT_ONCE):
            places = slice(first, first + _AT_ONCE)
            found += self._compared(both[new[places]], shared[places])
        return np.concatenate(found, axis=1)

    def _compared(self, pairs: Numbers, shared: Numbers) -> Iterator[NDArray[np.int64]]:
        """Those of some pairs that share enough, given how many each shares of what was looked up."""
        one, other = pairs >> 32, pairs & (2**32 - 1)
        # Of what was not looked up they may share all, or, where this is what is common, all that is so in the other.
        left, common = self._left[one], self._common[other]
        left = np.where(left == self._common[one], np.minimum(left, common), left)
        alike = shared + left >= self._needed[self._sizes[one]]
        one, other = one[alike], other[alike]
        lengths = self._words.lengths
        for some in _parts(lengths[one] + lengths[other]):
            enough = self._shared_by(one[some], other[some]) >= self._needed[self._sizes[one[some]]]
            yield np.stack([one[some], other[some]])[:, enough]

    def _shared_by(self, one: Numbers, other: Numbers) -> Numbers:
        """How many trigrams the two texts of each pair share."""
        if not len(one):
            return np.empty(0, np.int64)
        texts, places = np.unique(np.stack([one, other]), return_inverse=True)
        owners, codes = self._words.runs_of(texts)
        ranks = np.unique(codes, return_inverse=True)[1]
        runs = np.sort(owners.astype(np.int64) << 32 | ranks)
        runs = runs[_groups(runs)[0]]
        counts = np.bincount(runs >> 32, minlength=len(texts))
        starts = np.cumsum(counts) - counts
        both = places.T.ravel()
        pair = np.repeat(np.arange(len(both)) // 2, counts[both])
        held = np.sort(pair << 32 | runs[_ranges(starts[both], counts[both])] & (2**32 - 1))
        return np.bincount(held[1:][held[1:] == held[:-1]] >> 32, minlength=len(one))


def _codes(first: NDArray[np.uint32], second: NDArray[np.uint32], third: NDArray[np.uint32]) -> Codes:
    """A number for each run of three words."""
    codes = first.astype(np.uint64)
    for following in (second, third):
        codes *= _STEP
        codes += following
    return codes


def _groups(ordered: NDArray[np.int64 | np.uint64]) -> tuple[Numbers, Numbers]:
    """Where each number begins that stands in such a sequence several times in a row, and how often it stands there."""
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    places = np.flatnonzero(new)
    return places, np.diff(places, append=len(ordered))


def _ranges(starts: Numbers, lengths: NDArray[np.integer[Any]]) -> Numbers:
    """The places of ranges that begin at these places and are so long, one after another."""
    lengths = lengths.astype(np.int64)
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))


def _parts(sizes: NDArray[np.integer[Any]]) -> Iterator[slice]:
    """Slices of a sequence that each add up to little more than `_AT_ONCE`."""
    codes = (np.cumsum(sizes, dtype=np.int64) - sizes) // _AT_ONCE
    ends = [*np.flatnonzero(np.diff(codes)) + 1, len(codes)]
    yield from (slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def _by_text(rarest: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """What is looked up, in parts that have about `_MET` holders; what is looked up of one text stays together."""
    codes = (np.cumsum(rarest["holders"], dtype=np.int64) - rarest["holders"]) // _MET
    new, _ = _groups(codes)
    bounds = np.searchsorted(rarest["text"], rarest["text"][new])
    yield from (rarest[start:end] for start, end in pairwise([*np.unique(bounds).tolist(), len(rarest)]))
