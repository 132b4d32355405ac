"""Words that the findings of all runs share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Protocol


class Change(Protocol):
    """A difference with its interval, where there is one."""

    @property
    def difference(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def change_with_interval(one: Change) -> str:
    """With its sign, and with three decimals, such as `+0.120 (+0.031 to +0.209)`."""
    interval = "" if one.low is None or one.high is None else f" ({one.low:+.3f} to {one.high:+.3f})"
    return f"{one.difference:+.3f}{interval}"


def commonest(reasons: Mapping[str, int]) -> str:
    """The reason that was given most often.

    >>> commonest({"too long": 2, "no answer": 5})
    'no answer'
    """
    return max(reasons, key=lambda reason: reasons[reason])


_BELOW = re.compile(r"\s*(under|below|less than|up to|fewer than|<)", re.IGNORECASE)
_ABOVE = re.compile(r"\s*(over|above|more than|at least|>)", re.IGNORECASE)


def natural_order(values: Iterable[str]) -> list[str] | None:
    """Values that are amounts, from small to large; nothing where most of them are not.

    >>> natural_order(["over 50", "1 to 10", "0", "11 to 50"])
    ['0', '1 to 10', '11 to 50', 'over 50']
    >>> natural_order(["65+", "Prefer not to say", "18-24", "25-34"])
    ['18-24', '25-34', '65+', 'Prefer not to say']
    >>> natural_order(["Asia", "Europe"]) is None
    True
    """
    found = list(values)
    amounts = {value: float(match[0]) for value in found if (match := re.search(r"\d+(\.\d+)?", value))}
    if len(found) < 2 or len(amounts) < len(found) / 2 or len(set(amounts.values())) < 2:
        return None

    def place(value: str) -> tuple[float, int, str]:
        side = -1 if _BELOW.match(value) else 1 if _ABOVE.match(value) else 0
        return amounts.get(value, math.inf), side, value

    return sorted(found, key=place)
