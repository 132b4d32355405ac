"""What a text looks like before anybody understands it: form, words and characters, as numbers with names."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from palate.records import Comparison
from palate.stats import Floats

MOST_CHARACTERS = 4_000
"""Of a longer text its beginning and its end are read, as many characters in all."""
MOST_GRAMS = 500
"""Word n-grams, and as many character n-grams: those that tell responses apart most often, whatever was chosen."""
_FEWEST = 3
"""Items in which an n-gram must tell responses apart."""
_ENOUGH_TO_NAME = 40
"""Texts that are read again to name an n-gram."""
_BITS = 18
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_START, _END = "\x02", "\x03"
_TOKEN = re.compile(r"\w+|[^\w\s]")
_MARKS = ".,!?:;-'\"()[]{}*#`_/\\|<>“”‘’«»—–…"
_OPENING, _CLOSING = "[({<\"'“‘«`", "])}>\"'”’»`"

Buckets = NDArray[np.int64]
_NONE: Buckets = np.zeros(0, np.int64)


class FedTexts:
    """The responses of many items as rows of numbers, in the order of the items and of their responses.

    Columns have like weight in three blocks: the form of a text, its words, its characters. N-grams are hashed, and
    named again only where somebody asks which they were.
    """

    def __init__(
        self, items: Sequence[Comparison], texts: Sequence[Sequence[str]], positions: Sequence[Sequence[int]] | None
    ) -> None:
        self.texts = [read for responses in texts for read in map(_shortened, responses)]
        self.item_of = np.repeat(np.arange(len(items)), [len(responses) for responses in texts])
        names, form = _form(items, texts, positions)
        blocks: list[tuple[Sequence[str | tuple[Kind, int]], Floats]] = [(names, form)]
        for kind in (_Words(), _Characters()):
            buckets = [
                np.unique(np.concatenate([_NONE, *(own for _, own in kind.hashed(text))])) for text in self.texts
            ]
            kept = _tell_apart(buckets, self.item_of)
            blocks.append(([(kind, int(bucket)) for bucket in kept], _presence(buckets, kept)))
        self._names = [name for block, _ in blocks for name in block]
        self.raw = np.concatenate([values for _, values in blocks], axis=1)
        """(responses, columns), before anything is centred or scaled."""
        self.block_of = np.repeat(np.arange(len(blocks)), [len(block) for block, _ in blocks])

    def gram(self, column: int) -> str | None:
        """The n-gram of a column, the most frequent where several were hashed into it; None for a column of form."""
        name = self._names[column]
        if isinstance(name, str):
            return None
        kind, bucket = name
        seen: Counter[str] = Counter()
        for place in np.flatnonzero(self.raw[:, column])[:_ENOUGH_TO_NAME]:
            text = self.texts[place]
            for length, hashed in kind.hashed(text):
                seen.update(kind.grams(text, length, np.flatnonzero(hashed == bucket).tolist()))
        return max(seen, key=lambda gram: (seen[gram], len(gram), gram))

    def describe(self, column: int) -> str:
        """What a column says of a text, in words."""
        gram = self.gram(column)
        if gram is None:
            return str(self._names[column])
        if gram == _START + _END:
            return "is empty"
        if gram.startswith(_START):
            return f"begins with {_quoted(gram[1:])}"
        if gram.endswith(_END):
            return f"ends with {_quoted(gram[:-1])}"
        return f"contains {_quoted(gram)}"

    def excerpt(self, column: int, place: int, width: int = 60) -> str:
        """A little of a response, around the n-gram of the column where there is one."""
        text, gram = self.texts[place], self.gram(column) or ""
        middle = len(text) if gram.endswith(_END) else max(0, text.find(gram))
        start = max(0, min(middle - width // 3, len(text) - width))
        shown = " ".join(text[start : start + width].split())
        return ("…" if start else "") + shown + ("…" if start + width < len(text) else "")


def _shortened(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return text[:half] + text[-half:]


def _quoted(gram: str) -> str:
    return "“" + gram.replace("\n", "⏎").replace("\t", "⇥") + "”"


def _hash(codes: NDArray[np.uint64], lengths: range) -> Iterator[tuple[int, Buckets]]:
    """For every length, the bucket of the n-gram that begins at each place."""
    rolled = np.zeros(len(codes), np.uint64)
    for length in range(1, lengths.stop):
        if length > len(codes):
            return
        rolled = rolled[: len(codes) - length + 1] * _MULTIPLIER + codes[length - 1 :]
        if length in lengths:
            mixed = (rolled ^ (rolled >> np.uint64(29))) * _MULTIPLIER + np.uint64(length)
            yield length, ((mixed * _MULTIPLIER) >> np.uint64(64 - _BITS)).astype(np.int64)


class _Words:
    """Runs of one to three words or marks."""

    def hashed(self, text: str) -> Iterator[tuple[int, Buckets]]:
        codes = np.array([_token_code(token) for token in _TOKEN.findall(text)], np.uint64)
        return _hash(codes, range(1, 4))

    def grams(self, text: str, length: int, starts: Iterable[int]) -> set[str]:
        spans = [match.span() for match in _TOKEN.finditer(text)]
        return {text[spans[start][0] : spans[start + length - 1][1]] for start in starts}


class _Characters:
    """Runs of two to five characters; the ends of the text are characters too."""

    def hashed(self, text: str) -> Iterator[tuple[int, Buckets]]:
        marked = f"{_START}{text}{_END}".encode("utf-32-le", "surrogatepass")
        return _hash(np.frombuffer(marked, "<u4").astype(np.uint64), range(2, 6))

    def grams(self, text: str, length: int, starts: Iterable[int]) -> set[str]:
        marked = f"{_START}{text}{_END}"
        return {marked[start : start + length] for start in starts}


Kind = _Words | _Characters


@lru_cache(maxsize=200_000)
def _token_code(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "surrogatepass"))


def _tell_apart(buckets: Sequence[Buckets], item_of: NDArray[np.intp]) -> Buckets:
    """The buckets that some responses of an item have and others have not, in most items; most frequent first."""
    times = np.zeros(2**_BITS, np.int64)
    bounds = np.searchsorted(item_of, np.arange(item_of[-1] + 2))
    for start, stop in pairwise(bounds.tolist()):
        values, counts = np.unique(np.concatenate(buckets[start:stop]), return_counts=True)
        times[values[counts < stop - start]] += 1
    kept = np.argsort(-times, kind="stable")[:MOST_GRAMS]
    return np.sort(kept[times[kept] >= _FEWEST])


def _presence(buckets: Sequence[Buckets], kept: Buckets) -> Floats:
    column_of = np.full(2**_BITS, -1)
    column_of[kept] = np.arange(len(kept))
    present = np.zeros((len(buckets), len(kept)))
    for row, own in enumerate(buckets):
        columns = column_of[own]
        present[row, columns[columns >= 0]] = 1.0
    return present


def _form(
    items: Sequence[Comparison], texts: Sequence[Sequence[str]], positions: Sequence[Sequence[int]] | None
) -> tuple[list[str], Floats]:
    rows = []
    listed = [[item.prompt.find(text) for text in item.responses] for item in items]
    lists = sum(min(places) >= 0 for places in listed) >= _FEWEST
    for place, (item, responses) in enumerate(zip(items, texts, strict=True)):
        asked = {token.lower() for token in _TOKEN.findall(item.prompt)}
        lengths = [len(text) for text in responses]
        for number, text in enumerate(responses):
            row = _shape(text, asked)
            row["is the longest"] = float(lengths[number] == max(lengths))
            row["is the shortest"] = float(lengths[number] == min(lengths))
            if lists:
                places = listed[place]
                row["is listed first in the prompt"] = float(0 <= min(places) == places[number])
            if positions is not None:
                where = positions[place][number]
                row["stands first"] = float(where == 0)
                row["stands later"] = float(where)
            rows.append(row)
    names = list(rows[0])
    return names, np.array([[row[name] for name in names] for row in rows])


def _shape(text: str, asked: set[str]) -> dict[str, float]:
    tokens = _TOKEN.findall(text)
    words = [token for token in tokens if token[0].isalnum()]
    lines = text.split("\n")
    bare = text.strip()
    row = {
        "length in characters": np.log1p(len(text)),
        "length in words": np.log1p(len(words)),
        "length of words": sum(map(len, words)) / (len(words) or 1),
        "number of lines": np.log1p(len(lines)),
        "different words": len(set(words)) / (len(words) or 1),
        "capital letters": np.log1p(sum(letter.isupper() for letter in text)),
        "digits": np.log1p(sum(letter.isdigit() for letter in text)),
        "letters beyond ASCII": sum(ord(letter) > 127 for letter in text) / (len(text) or 1),
        "words of the prompt": sum(word.lower() in asked for word in words) / (len(words) or 1),
        "list items": np.log1p(sum(bool(re.match(r"\s*([-*•]|\d+[.)])\s", line)) for line in lines)),
        "headings": np.log1p(sum(line.startswith("#") for line in lines)),
        "bold or code": np.log1p(text.count("**") + text.count("`")),
        "links": np.log1p(text.count("http")),
        "escaped characters": np.log1p(text.count("\\n") + text.count('\\"') + text.count("\\'")),
        "space at an end": float(text != bare),
        "double spaces": np.log1p(text.count("  ")),
        "begins with a bracket or quote": float(bare[:1] in _OPENING and bare != ""),
        "ends with a bracket or quote": float(bare[-1:] in _CLOSING and bare != ""),
        "begins with a small letter": float(bare[:1].islower()),
        "ends without a full stop": float(bare[-1:] not in ".!?"),
        "is empty": float(not bare),
    }
    row |= {f"number of {mark}": float(np.log1p(text.count(mark))) for mark in _MARKS}
    return {name: float(value) for name, value in row.items()}
