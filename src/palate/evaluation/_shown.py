"""What items were shown with under one view, as columns over the lines that say so."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.data import Digests, digest_of
from palate.runs import ViewLine

Value = TypeVar("Value")


class Names:
    """Names as numbers, in the order in which they came; 20 bytes each.

    >>> names = Names(["q1", "q2"])
    >>> names.number("q2"), names.number("q9"), names.add("q9")
    (1, None, 2)
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._digests = Digests()
        for name in names:
            self.add(name)

    def __len__(self) -> int:
        return len(self._digests)

    def number(self, name: str) -> int | None:
        """The number of a name; None for one that never came."""
        return self._digests.number(digest_of(name))

    def add(self, name: str) -> int:
        """The number of a name, which is the next one where it is new."""
        return self._digests.add(digest_of(name))


class Shown:
    """12 bytes a line: all that many lines say alike is held once, and of names only who is whom."""

    def __init__(self, lines: Iterable[ViewLine] = (), items: Names | None = None) -> None:
        self._items = Names() if items is None else items
        self._users = Names()
        self._places, self._people, self._rest = array("I"), array("I"), array("I")
        self.lines: list[ViewLine] = []
        """What the lines say, each once; without item, user and draw, and of the parts only whether there are any."""
        self._numbers: dict[object, int] = {}
        for line in lines:
            self.add(line)

    def add(self, line: ViewLine) -> None:
        """Take a line."""
        self._places.append(self._items.add(line.item))
        self._people.append(0 if line.user_id is None else self._users.add(line.user_id) + 1)
        said = line.by_name, line.dropped, line.withheld, line.closeness, line.neighbours, line.missing
        key = (*said, bool(line.parts), *line.kinds.items())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.lines)
            parts = ("",) if line.parts else ()
            self.lines.append(msgspec.structs.replace(line, item="", user_id=None, draw=0, parts=parts))
        self._rest.append(number)

    def __len__(self) -> int:
        return len(self._rest)

    @property
    def items(self) -> NDArray[np.uint32]:
        """The number of each line's item."""
        return np.frombuffer(self._places, np.uint32)

    @property
    def people(self) -> int:
        """How many different people, and nobody, were shown."""
        return len(np.unique(np.frombuffer(self._people, np.uint32)))

    def column(self, read: Callable[[ViewLine], int]) -> NDArray[np.int64]:
        """A number of each line."""
        return np.array([read(line) for line in self.lines], np.int64)[np.frombuffer(self._rest, np.uint32)]

    def items_without(self, kind: str | None = None) -> int:
        """How many items have a line that shows no part of this kind, or none at all."""
        lacking = self.column(lambda line: not (line.kinds if kind is None else line.kinds.get(kind)))
        return len(np.unique(self.items[lacking > 0]))

    def count(self, read: Callable[[ViewLine], Value]) -> Counter[Value]:
        """How many lines say what."""
        found: Counter[Value] = Counter()
        counts = np.bincount(np.frombuffer(self._rest, np.uint32), minlength=len(self.lines))
        for line, number in zip(self.lines, counts.tolist(), strict=True):
            found[read(line)] += number
        return found
