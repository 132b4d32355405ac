"""A set of digests that takes little memory."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_RECENT = 2**14, 2**17
"""How many digests are kept as a dictionary before they join the arrays: at least, and at most."""
_BYTES = 16


def digest_of(content: bytes | str) -> bytes:
    """16 bytes that stand for these: two that differ would have to be looked for beyond all the data in the world."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_BYTES).digest()


class Digests:
    """Digests, numbered in the order in which they came; 20 bytes each, where a set of them would take 100.

    >>> digests = Digests()
    >>> digests.add(digest_of(b"one")), digests.add(digest_of(b"two")), digests.add(digest_of(b"one"))
    (0, 1, 0)
    >>> digests.number(digest_of(b"three")) is None, len(digests)
    (True, 2)
    """

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._heads, self._tails, self._numbers = (np.empty(0, kind) for kind in (np.uint64, np.uint64, np.uint32))
        """The first and second halves of the others, in the order of the first, and the numbers."""
        self._sorted = self._heads.data

    def __len__(self) -> int:
        return len(self._heads) + len(self._recent)

    def number(self, digest: bytes) -> int | None:
        """The number of a digest; None where it is not there."""
        number = self._recent.get(digest)
        if number is not None or not len(self._sorted):
            return number
        head = int.from_bytes(digest[:8], "little")
        place = bisect_left(self._sorted, head)
        while place < len(self._sorted) and self._sorted[place] == head:
            if int(self._tails[place]) == int.from_bytes(digest[8:], "little"):
                return int(self._numbers[place])
            place += 1
        return None

    def add(self, digest: bytes) -> int:
        """The number of a digest, which is the next one where it is new."""
        number = self.number(digest)
        if number is None:
            number = self._recent[digest] = len(self)
            if len(self._recent) > min(max(_RECENT[0], len(self._heads) // 8), _RECENT[1]):
                self._settle()
        return number

    def __iter__(self) -> Iterator[bytes]:
        """Every digest, in any order."""
        for start in range(0, len(self._heads), _RECENT[0]):
            some = slice(start, start + _RECENT[0])
            content = np.stack([self._heads[some], self._tails[some]], axis=1).astype("<u8").tobytes()
            yield from (content[place : place + _BYTES] for place in range(0, len(content), _BYTES))
        yield from self._recent

    def _settle(self) -> None:
        """Move what came of late into the arrays."""
        halves: NDArray[np.uint64] = np.frombuffer(b"".join(self._recent), "<u8").reshape(-1, 2).astype(np.uint64)
        order = np.argsort(halves[:, 0])
        places = np.searchsorted(self._heads, halves[order, 0])
        self._heads = np.insert(self._heads, places, halves[order, 0])
        self._tails = np.insert(self._tails, places, halves[order, 1])
        numbers = np.fromiter(self._recent.values(), np.uint32, len(self._recent))
        self._numbers = np.insert(self._numbers, places, numbers[order])
        self._sorted = self._heads.data
        self._recent.clear()
