"""Words that the findings of all runs share."""

from __future__ import annotations

from collections.abc import Mapping
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
