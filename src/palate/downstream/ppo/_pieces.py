"""Many texts read with gradients, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import torch

from palate.records import PalateError

Some = TypeVar("Some")


class Tokens(Protocol):
    """A prompt and a response to it, as tokens."""

    @property
    def prompt(self) -> Sequence[int]: ...
    @property
    def response(self) -> Sequence[int]: ...


class Pieces:
    """As many texts at a time as a budget of tokens lets be read at once; half as many from where memory ran out.

    `clear` throws away what was half done when that happened.
    """

    def __init__(self, at_once: int, clear: Callable[[], None]) -> None:
        self.at_once, self._clear = at_once, clear

    def each(
        self,
        texts: Sequence[Tokens],
        places: Sequence[int],
        number: Callable[[int], int],
        work: Callable[[list[int]], Some],
        advice: str,
    ) -> list[Some]:
        """What comes of all these texts; `number` tells which prompt a text has. Where memory runs out, all again.

        `advice` follows "the GPU ran out of memory on one text of N tokens".
        """
        while True:
            piece: list[int] = []
            try:
                found = []
                for piece in self._batches(texts, places, number):
                    found.append(work(piece))
                return found
            except torch.OutOfMemoryError as error:
                if len(piece) == 1:
                    length = len(texts[piece[0]].prompt) + len(texts[piece[0]].response)
                    raise PalateError(advice.format(length=length)) from error
            # Out here, since an error in hand keeps alive what filled the memory.
            self.at_once //= 2
            self._clear()
            torch.cuda.empty_cache()

    def _batches(
        self, texts: Sequence[Tokens], places: Sequence[int], number: Callable[[int], int]
    ) -> Iterator[list[int]]:
        """Texts of one prompt together, as many as the token budget lets be read at once; each prompt is read once."""
        some: list[int] = []
        prompts: set[int] = set()
        before = after = 0
        for place in sorted(places, key=lambda place: (-len(texts[place].prompt), place)):
            own = len(texts[place].prompt), len(texts[place].response)
            before, after = max(before, own[0]), max(after, own[1])
            prompts.add(number(place))
            if some and len(prompts) * before + (len(some) + 1) * after > self.at_once:
                yield some
                some, prompts, (before, after) = [], {number(place)}, own
            some.append(place)
        if some:
            yield some
