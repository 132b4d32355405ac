"""How much of a profile fits: the least relevant history goes first."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from palate.records import PalateError, Part


class Budget(msgspec.Struct, frozen=True):
    """At most so many words or tokens of profile. The prompt and the responses are never cut.

    >>> parse_budget("words:300")
    Budget(amount=300, unit='words')
    """

    amount: int
    unit: str = "words"


def parse_budget(text: str) -> Budget:
    """Read `300`, `words:300` or `tokens:300`."""
    unit, _, number = text.rpartition(":")
    unit = unit or "words"
    if unit not in ("words", "tokens") or not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise PalateError(f"cannot read the budget {text!r}: write words:300 or tokens:300")
    return Budget(int(number), unit)


def counter(unit: str) -> Callable[[str], int]:
    """What measures a text: white-space words, or the tokens of the built-in encoder."""
    if unit == "words":
        return lambda text: len(text.split())
    from palate.engine import token_counter

    return token_counter("minilm")


def fit(fixed: list[Part], history: list[list[Part]], most: int, count: Callable[[str], int]) -> list[Part]:
    """Everything that is fixed, then of each ranked history as much as fits, taken rank by rank.

    A piece that does not fit ends its own list, so that what is kept is always the most relevant.
    """
    room = most - sum(count(part.text) for part in fixed)
    kept: list[list[Part]] = [[] for _ in history]
    open_lists = set(range(len(history)))
    for rank in range(max((len(parts) for parts in history), default=0)):
        for index in sorted(open_lists):
            if rank >= len(history[index]):
                continue
            cost = count(history[index][rank].text)
            if cost <= room:
                kept[index].append(history[index][rank])
                room -= cost
            else:
                open_lists.discard(index)
    return [*fixed, *(part for parts in kept for part in parts)]
