"""When two texts count as the same.

A response that stands in somebody's history again tells which response they will take: rankings expanded to pairs,
merged files and answers that were generated again all do this. Views leave such history out, splits keep such choices
together, and the checks of a benchmark count them.
"""

from __future__ import annotations

import math
import re
import unicodedata
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
LONGEST_KEPT = 20_000
"""Characters of a text of which anything is remembered: a server is sent texts of a million."""

Codes = NDArray[np.uint64]
Numbers = NDArray[np.int64]
_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts without spaces, each of which counts as a word, also right after a Latin word or a number."""
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_UNSEEN = re.compile(r"[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
"""Characters that nobody sees, such as soft hyphens and spaces without width; copies from web pages hold them."""
_STEP, _TEXT_STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
_LOW, _ONE = 2**32 - 1, np.int32(1)
_COMMON = 500
"""A trigram of more texts than this, such as *as a language*, does not by itself make two texts worth comparing."""
_AT_ONCE = 2**21
"""Words, and holders of runs of words, that are in memory at once."""
_MET = 2**23
"""Pairs of texts that are counted at once."""
_HELD = 2**23
"""Bytes from which what is compared lies in files."""
_NEAR = 1_024
"""Words between two texts that are read rather than passed over."""
_RUN = np.dtype([("code", "<u8"), ("text", "<u4")])
_SHARED = np.dtype([("text", "<u4"), ("start", "<i8"), ("longer", "<u2")])
"""A text, and of a run of three words that it holds, where the longer texts that hold it begin, and their number."""


def text_key(text: str) -> str:
    """A text as it is compared: its words, without case, spacing and punctuation; of a text without words, itself.

    >>> text_key("Use the  oven-light!")
    'use the oven light'
    """
    return _remembered_key(text) if len(text) <= LONGEST_KEPT else _key(text)


@lru_cache(maxsize=20_000)
def _remembered_key(text: str) -> str:
    return _key(text)


def _key(text: str) -> str:
    # An accent is one character or two, and a letter wide or not, depending on who wrote the file.
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
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


def _runs_of_three(key: str) -> frozenset[str]:
    """The word trigrams of a long text; none of a short one."""
    return _remembered_runs(key) if len(key) <= LONGEST_KEPT else _runs(key)


@lru_cache(maxsize=4096)
def _remembered_runs(key: str) -> frozenset[str]:
    return _runs(key)


def _runs(key: str) -> frozenset[str]:
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
        ones, others = (np.concatenate(both).astype(np.uint32) for both in ((one, other), (other, one)))
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
        """The runs of three words of all texts, a block at a time, as `_runs_in` gives them."""
        start = 0
        for first, end in pairwise(self.firsts):
            lengths = self.lengths[first:end]
            length = int(lengths.sum(dtype=np.int64))
            texts, codes = _runs_in(lengths, np.frombuffer(self._file.read(4 * start, 4 * length), np.uint32))
            yield texts + np.uint32(first), codes
            start += length

    def runs_of(self, texts: NDArray[np.uint32], starts: Numbers) -> tuple[NDArray[np.uint32], Codes]:
        """Those of some texts, in order and each once, by their places among these; `starts` is where each begins."""
        lengths = self.lengths[texts].astype(np.int64)
        ends = starts + lengths
        # What lies near to each other is read at once.
        new = np.concatenate([[True], starts[1:] - ends[:-1] > _NEAR])
        low, high = starts[new], ends[np.append(new[1:], True)]
        read = b"".join(map(self._file.read, (4 * low).tolist(), (4 * (high - low)).tolist()))
        moved = (low - np.cumsum(high - low) + (high - low))[np.cumsum(new) - 1]
        return _runs_in(lengths, np.frombuffer(read, np.uint32)[_ranges(starts - moved, lengths)])

    @property
    def lengths(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._lengths, np.uint32)

    def starts(self) -> Numbers:
        """With which word each text begins."""
        starts = np.cumsum(self.lengths, dtype=np.int64)
        starts -= self.lengths
        return starts


def _runs_in(lengths: NDArray[np.integer[Any]], words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], Codes]:
    """The texts and codes of the runs of three words in texts of these lengths, one after another; each run once for
    each text."""
    inside = np.ones(len(words), bool)
    last = np.cumsum(lengths, dtype=np.int64)[lengths > 0]
    inside[last - 1] = inside[last - 2] = False
    places = np.flatnonzero(inside)
    texts = np.repeat(np.arange(len(lengths), dtype=np.uint32), np.maximum(lengths, 2) - 2)
    codes = _codes(words[places], words[places + 1], words[places + 2])
    both = codes + texts * _TEXT_STEP
    order = np.argsort(both)
    both = both[order]
    once = np.ones(len(codes), bool)
    once[order[1:][both[1:] == both[:-1]]] = False
    return texts[once], codes[once]


def _by_code(words: _Words) -> tuple[NDArray[np.int32], Iterator[tuple[Codes, NDArray[np.uint32]]]]:
    """How many different runs of three words each text has, and all of these in the order of their codes, each with its
    text, a part at a time."""
    bits = (words.count // _AT_ONCE).bit_length()
    parts = Buckets(2**bits, _RUN, _HELD)
    sizes = np.zeros(len(words), np.int32)
    for texts, codes in words.runs():
        runs = np.empty(len(codes), _RUN)
        runs["code"], runs["text"] = codes, texts
        parts.add(codes >> np.uint64(64 - bits) if bits else np.zeros(len(codes), np.uint8), runs)
        np.add.at(sizes, texts, _ONE)

    def in_order() -> Iterator[tuple[Codes, NDArray[np.uint32]]]:
        for part in range(2**bits):
            runs = parts.read(part)
            order = np.argsort(runs["code"])
            yield runs["code"][order], runs["text"][order]

    return sizes, in_order()


class _Trigrams:
    """Which texts hold which run of three words, in memory. Texts of few words have none."""

    def __init__(self, words: _Words) -> None:
        self._words = words
        self._sizes, runs = _by_code(words)
        """How many different trigrams each text has."""
        codes, counts, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.uint32)]
        for code, owner in runs:
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
        count = len(_runs_of_three(key))  # of codes there are fewer: all unknown words have one number
        enough = [_enough(min(count, int(size))) for size in self._sizes[others]]
        return frozenset(others[shared >= enough].tolist())


class _Pairs:
    """Every two texts that count as the same. Below, texts go by their ranks: the shorter, the lower.

    The shorter of two that are the same shares at least `_enough` of its trigrams, and so two of any few more than it
    may miss. Those are looked up that the fewest longer texts hold, and only pairs that have two of these in common
    are compared.

    Of every text little is held in memory, and of its trigrams nothing: which texts hold which lies in files without
    a name, in parts that are read one at a time, so that time grows with the number of texts.
    """

    def __init__(self, words: _Words) -> None:
        self._words, self._starts = words, words.starts()
        sizes, runs = _by_code(words)
        order = np.argsort(sizes, kind="stable")
        self._texts = order.astype(np.uint32)
        """The number of each text."""
        ranks = np.empty_like(self._texts)
        ranks[order] = np.arange(len(words))
        sizes = sizes[order]
        self._needed = np.array([_enough(size) for size in range(int(sizes.max(initial=0)) + 1)], np.int32)[sizes]
        """How many trigrams each text has to share with a longer one."""
        self._common, self._left = np.zeros_like(sizes), np.zeros_like(sizes)
        """How many trigrams of each text are common, and how many that others hold as well are not looked up."""
        self._blocks = [*(some.start for some in _parts(sizes)), len(words)]
        """Where each block of texts begins, and the last one ends."""
        self._shared = Buckets(len(self._blocks) - 1, _SHARED, _HELD)
        """By blocks, the trigrams of each text that others hold as well and that are not common."""
        self._holders = Unnamed(_HELD)
        """The texts that hold each of those trigrams, in order."""
        end = 0
        for codes, texts in runs:
            _, count = _groups(codes)
            held_by = np.repeat(count, count)
            np.add.at(self._common, ranks[texts[held_by > _COMMON]], _ONE)
            count = count[(count > 1) & (count <= _COMMON)]
            both = np.repeat(np.arange(len(count)), count) << 32 | ranks[texts[(held_by > 1) & (held_by <= _COMMON)]]
            both.sort()
            shared = np.empty(len(both), _SHARED)
            shared["text"], shared["start"] = both & _LOW, np.arange(end + 1, end + len(both) + 1)
            shared["longer"] = np.repeat(np.cumsum(count), count) - np.arange(1, len(both) + 1)
            self._shared.add(np.searchsorted(self._blocks, shared["text"], side="right") - 1, shared)
            self._holders.write(shared["text"].tobytes())
            end += len(both)

    def found(self) -> tuple[Numbers, Numbers]:
        """By their numbers, each pair once, in order, and the shorter text first."""
        pairs = [np.empty(0, np.int64)]
        waiting: list[NDArray[np.void]] = []
        for block, end in enumerate(self._blocks[1:]):
            waiting.append(self._rarest(block))
            if end == len(self._texts) or sum(int(some["longer"].sum()) for some in waiting) > _MET:
                for some in _by_text(np.concatenate(waiting)):
                    pairs += self._the_same(some)
                waiting.clear()
        both = np.concatenate(pairs)
        one, other = self._texts[both >> 32], self._texts[both & _LOW]
        order = np.lexsort((other, one))
        return one[order].astype(np.int64), other[order].astype(np.int64)

    def _rarest(self, block: int) -> NDArray[np.void]:
        """Of each text of a block as many trigrams as have to be looked up, those that the fewest longer texts hold."""
        first, end = self._blocks[block : block + 2]
        shared = self._shared.read(block)
        shared = shared[np.argsort(shared["text"].astype(np.int64) * (_COMMON + 1) + shared["longer"])]
        texts = shared["text"].astype(np.int64) - first
        rare, common = np.bincount(texts, minlength=end - first), self._common[first:end]
        may_miss = rare + common - self._needed[first:end]
        # What no other text holds is missed by all, so as many fewer of these have to be looked up.
        most = np.where(may_miss < 0, 0, may_miss + 2)
        self._left[first:end] = rare + common - np.minimum(rare, most)
        place = np.arange(len(shared)) - (np.cumsum(rare) - rare)[texts]
        looked_up: NDArray[np.void] = shared[(place < most[texts]) & (shared["longer"] > 0)]
        return looked_up

    def _the_same(self, rarest: NDArray[np.void]) -> Iterator[Numbers]:
        """Those pairs of which some texts are the shorter, given what of these is looked up."""
        rarest = rarest[np.argsort(rarest["start"])]
        met = np.empty(int(rarest["longer"].sum()), np.int64)
        bounds = np.searchsorted(rarest["start"], np.arange(0, int(rarest["start"].max(initial=0)) + 1, _AT_ONCE))
        end = 0
        for low, high in pairwise([*bounds.tolist(), len(rarest)]):
            if low == high:
                continue
            looked_up, last = rarest[low:high], rarest[high - 1]
            start = int(looked_up["start"][0])
            length = int(last["start"]) + int(last["longer"]) - start
            holders = np.frombuffer(self._holders.read(4 * start, 4 * length), np.uint32)
            for some in map(looked_up.__getitem__, _parts(looked_up["longer"])):
                one = np.repeat(some["text"].astype(np.int64) << 32, some["longer"])
                met[end : end + len(one)] = one | holders[_ranges(some["start"] - start, some["longer"])]
                end += len(one)
        met.sort()
        new, shared = _groups(met)
        for first in range(0, len(new), _AT_ONCE):
            places = slice(first, first + _AT_ONCE)
            yield from self._compared(met[new[places]], shared[places])

    def _compared(self, pairs: Numbers, shared: Numbers) -> Iterator[Numbers]:
        """Those of some pairs that share enough, given how many each shares of what was looked up."""
        one, other = pairs >> 32, pairs & _LOW
        # Of what was not looked up they may share all, or, where this is what is common, all that is so in the other.
        left, common = self._left[one], self._common[other]
        left = np.where(left == self._common[one], np.minimum(left, common), left)
        pairs = pairs[shared + left >= self._needed[one]]
        lengths = self._words.lengths
        for some in _parts(lengths[self._texts[pairs >> 32]] + lengths[self._texts[pairs & _LOW]]):
            yield pairs[some][self._shared_by(pairs[some]) >= self._needed[pairs[some] >> 32]]

    def _shared_by(self, pairs: Numbers) -> Numbers:
        """How many trigrams the two texts of each pair share."""
        if not len(pairs):
            return np.empty(0, np.int64)
        texts, places = np.unique(self._texts[np.stack([pairs >> 32, pairs & _LOW], axis=1)], return_inverse=True)
        places = places.ravel()
        owners, codes = self._words.runs_of(texts, self._starts[texts])
        ranks = np.unique(codes, return_inverse=True)[1]
        counts = np.bincount(owners, minlength=len(texts))
        starts = np.cumsum(counts) - counts
        pair = np.repeat(np.arange(len(places)) // 2, counts[places])
        held = pair << 32 | ranks[_ranges(starts[places], counts[places])]
        held.sort()
        return np.bincount(held[1:][held[1:] == held[:-1]] >> 32, minlength=len(pairs))


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
    """What is looked up, in parts that about `_MET` longer texts hold; what is looked up of one text stays together."""
    codes = (np.cumsum(rarest["longer"], dtype=np.int64) - rarest["longer"]) // _MET
    new, _ = _groups(codes)
    bounds = np.searchsorted(rarest["text"], rarest["text"][new])
    yield from (rarest[start:end] for start, end in pairwise([*np.unique(bounds).tolist(), len(rarest)]))
