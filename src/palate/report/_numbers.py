"""How numbers are written in every form of the report, and in which order amounts stand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from palate.stats import PairedTest

ABSENT = "–"
MINUS = "−"
CLEAR = 0.05
"""The false discovery rate below which a gain carries the marker."""
_BELOW = re.compile(r"\s*(under|below|less than|up to|fewer than|<)", re.IGNORECASE)
_ABOVE = re.compile(r"\s*(over|above|more than|at least|>)", re.IGNORECASE)


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal.

    >>> percent(0.7234), percent(None)
    ('72.3%', '–')
    """
    return ABSENT if share is None or not math.isfinite(share) else f"{_tenths(share)}%"


def percent_interval(low: float | None, high: float | None) -> str:
    """An interval of shares, without the sign for per cent.

    >>> percent_interval(0.671, 0.77)
    '67.1–77.0'
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ABSENT
    joint = "–" if low >= 0 and high >= 0 else " to "
    return f"{_tenths(low)}{joint}{_tenths(high)}"


def points(gain: float | None) -> str:
    """A difference of two shares in percentage points, with its sign.

    >>> points(0.14), points(-0.031), points(0.0)
    ('+14.0', '−3.1', '0.0')
    """
    if gain is None or not math.isfinite(gain):
        return ABSENT
    tenths = _tenths(gain)
    return tenths if tenths == "0.0" or gain < 0 else f"+{tenths}"


def points_interval(low: float | None, high: float | None) -> str:
    """An interval of differences.

    >>> points_interval(-0.012, 0.189)
    '−1.2 to +18.9'
    """
    return ABSENT if low is None or high is None else f"{points(low)} to {points(high)}"


def figure(value: float | None, *, sign: bool = False) -> str:
    """A score with three decimals, or as many as show two digits.

    >>> figure(0.12345), figure(-12.3456, sign=True), figure(None), figure(0.00012)
    ('0.123', '−12.346', '–', '0.00012')
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    value = 0.0 if abs(value) < 1e-9 else value  # the dust of rounding
    digits = ".2g" if 0 < abs(value) < 0.001 else ".3f"
    text = format(value, f"+{digits}" if sign else digits)
    return text.replace("-", MINUS)


def figure_interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """An interval of scores.

    >>> figure_interval(-0.1, 0.2, sign=True)
    '−0.100 to +0.200'
    """
    return ABSENT if low is None or high is None else f"{figure(low, sign=sign)} to {figure(high, sign=sign)}"


def chance_of_error(value: float) -> str:
    """A p or q value with three decimals and no leading nought.

    >>> chance_of_error(0.0123), chance_of_error(0.00001)
    ('.012', '<.001')
    """
    if not math.isfinite(value):
        return ABSENT
    if value < 0.001:
        return "<.001"
    return f"{value:.3f}".removeprefix("0")


def named_chance(name: str, value: float) -> str:
    """A p or q value in a sentence.

    >>> named_chance("q", 0.0123), named_chance("q", 0.00001)
    ('q = .012', 'q < .001')
    """
    told = chance_of_error(value)
    return f"{name} < {told[1:]}" if told.startswith("<") else f"{name} = {told}"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "user"), count(1200, "user")
    ('1 user', '1,200 users')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _tenths(share: float) -> str:
    text = f"{100 * share:.1f}"
    return text.removeprefix("-") if text == "-0.0" else text.replace("-", MINUS)


def change_with_interval(one: PairedTest) -> str:
    """With its sign.

    >>> change_with_interval(PairedTest(n=9, users=9, difference=-0.12, low=-0.2512, high=0.03, p=0.1, q=0.1))
    '−0.120 (−0.251 to +0.030)'
    """
    interval = "" if one.low is None or one.high is None else f" ({figure_interval(one.low, one.high, sign=True)})"
    return f"{figure(one.difference, sign=True)}{interval}"


def commonest(reasons: Mapping[str, int]) -> str:
    """The reason that was given most often.

    >>> commonest({"too long": 2, "no answer": 5})
    'no answer'
    """
    return max(reasons, key=lambda reason: reasons[reason])


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
