"""Records that stay on the disk: what is held of each is where it begins, and it is decoded when it is asked for."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from palate.records import PalateError

T = TypeVar("T", covariant=True)
Some = TypeVar("Some")
_AT_ONCE = 1_024
"""Records that are read at once where they are read in order."""


class Unnamed:
    """A file without a name: nobody else can open it, and the system removes it with the process, however that ends.

    With `held`, it stays in memory until it is longer than so many bytes.
    """

    def __init__(self, held: int = 0) -> None:
        self._most_held, self._held = held, bytearray()
        self._file = None if held else _temporary()
        self._written = True

    def write(self, content: bytes | array[int]) -> None:
        """Add to its end."""
        if self._file is None:
            self._held += memoryview(content).cast("B")
            if len(self._held) <= self._most_held:
                return
            self._file, content, self._held = _temporary(), bytes(self._held), bytearray()
        try:
            self._file.write(content)
        except OSError as error:
            raise _no_room(error) from error
        self._written = False

    def read(self, start: int, length: int) -> bytes:
        """Some of what was written."""
        if self._file is None:
            return bytes(self._held[start : start + length])
        if not self._written:
            try:
                self._file.flush()
            except OSError as error:
                raise _no_room(error) from error
            self._written = True
        return os.pread(self._file.fileno(), length, start)


def _temporary() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> PalateError:
    return PalateError(
        f"cannot keep the texts of a large table in {tempfile.gettempdir()}: {error.strerror or error}. Make room, or "
        "set TMPDIR to a folder on a disk with room for as much as the table"
    )


class Lines:
    """Pieces of a file, each by its number: of one without a name, as `Unnamed` is, or of one that is there already."""

    def __init__(self, file: Path | None = None, held: int = 0) -> None:
        self._file = Unnamed(held) if file is None else file.open("rb")
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def end(self) -> int:
        """Where the last one ends."""
        return self._starts[-1]

    def append(self, piece: bytes) -> None:
        """Write one more."""
        assert isinstance(self._file, Unnamed)
        self._file.write(piece)
        self.skip(len(piece))

    def skip(self, length: int) -> None:
        """Take the next bytes of a file that is there already as one more."""
        self._starts.append(self._starts[-1] + length)

    def read(self, first: int, count: int = 1) -> list[bytes]:
        """Some in a row."""
        start, length = self._starts[first], self._starts[first + count] - self._starts[first]
        if isinstance(self._file, Unnamed):
            content = self._file.read(start, length)
        else:
            content = os.pread(self._file.fileno(), length, start)
        if count == 1:
            return [content]
        bounds = [bound - start for bound in self._starts[first : first + count + 1]]
        return [content[low:high] for low, high in pairwise(bounds)]


class Buckets:
    """Records put into buckets, of which few at a time are read again; of many, all lie in a file without a name.

    >>> buckets = Buckets(2, np.dtype("u1"))
    >>> buckets.add(np.array([1, 0, 1]), np.array([10, 20, 30]))
    >>> buckets.add(np.array([1]), np.array([40]))
    >>> buckets.read(0), buckets.read(1)
    (array([20], dtype=uint8), array([10, 30, 40], dtype=uint8))
    """

    def __init__(self, count: int, kind: np.dtype[Any], held: int = 0) -> None:
        self._count, self._kind = count, kind
        self._file, self._end = Unnamed(held), 0
        self._bounds: list[NDArray[np.int64]] = []
        """Of every addition, where in the file what it added to each bucket begins and ends."""

    def add(self, buckets: NDArray[np.integer[Any]], records: NDArray[Any]) -> None:
        """Put each record into its bucket."""
        buckets = buckets.astype(np.min_scalar_type(self._count))
        order = np.argsort(buckets, kind="stable")
        self._file.write(records[order].astype(self._kind, copy=False).tobytes())
        bounds = np.searchsorted(buckets[order], np.arange(self._count + 1)) * self._kind.itemsize
        self._bounds.append(self._end + bounds)
        self._end = int(self._bounds[-1][-1])

    def read(self, bucket: int) -> NDArray[Any]:
        """All of a bucket, in the order in which it came."""
        bounds = (some[bucket : bucket + 2].tolist() for some in self._bounds)
        return np.frombuffer(b"".join(self._file.read(start, end - start) for start, end in bounds), self._kind)


class OnDisk(Sequence[T], Generic[T]):
    """Records as a sequence, like a tuple of them in all but where they are.

    >>> lines = Lines()
    >>> for line in (b"one", b"two", b"three"):
    ...     lines.append(line)
    >>> words = OnDisk(lines, bytes.decode)
    >>> words[1], words[-1], len(words), list(words.at([2, 0]))
    ('two', 'three', 3, ['three', 'one'])
    """

    __slots__ = ("_decode", "_lines", "_places")

    def __init__(self, lines: Lines, decode: Callable[[bytes], T], places: Sequence[int] | None = None) -> None:
        self._lines, self._decode = lines, decode
        self._places: Sequence[int] = range(len(lines)) if places is None else places

    def at(self, places: Iterable[int]) -> OnDisk[T]:
        """Those at some places."""
        return OnDisk(self._lines, self._decode, array("I", (self._places[place] for place in places)))

    @property
    def lines(self) -> Sequence[int]:
        """The number of the line of each."""
        return self._places

    def holds(self, others: Sequence[object]) -> bool:
        """Whether others are the same lines of the file as all or some of these, read as something else."""
        whole = len(self._places) == len(self._lines)
        return whole and isinstance(others, OnDisk) and others._lines is self._lines

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            return tuple(self._records(self._places[place]))
        return self._decode(self._lines.read(self._places[place])[0])

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._records(self._places[start : start + _AT_ONCE])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)

    def _records(self, places: Sequence[int]) -> Iterator[T]:
        """Neighbours in the file are read at once."""
        if len(places) > 1 and places[-1] - places[0] == len(places) - 1 and isinstance(places, range):
            yield from map(self._decode, self._lines.read(places[0], len(places)))
        else:
            yield from (self._decode(self._lines.read(place)[0]) for place in places)


def at_places(records: Sequence[Some], places: Iterable[int]) -> Sequence[Some]:
    """Those at some places; on the disk where all are."""
    return records.at(places) if isinstance(records, OnDisk) else tuple(records[place] for place in places)


def picked(records: Sequence[Some], wanted: Callable[[Some], bool]) -> Sequence[Some]:
    """Those that are wanted; on the disk where all are.

    >>> picked([1, 2, 3], lambda number: number > 1)
    (2, 3)
    """
    return at_places(records, (place for place, record in enumerate(records) if wanted(record)))
