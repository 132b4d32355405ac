"""The cold-start curve: accuracy against how many judgements of the user are known."""

from __future__ import annotations

import math

import msgspec

from palate.evaluate._report._groups import is_control
from palate.evaluate._report._numbers import percent, percent_interval
from palate.evaluate._results import Result, Summary

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 150, 16, 44
_COLOURS = ("none", "profile-0", "profile-1", "profile-2", "profile-3", "stranger-0", "oracle")


class Point(msgspec.Struct, frozen=True):
    """One number of judgements, placed."""

    x: float
    y: float
    known: int
    text: str
    detail: str


class Line(msgspec.Struct, frozen=True):
    """One reward model, placed."""

    rm: str
    colour: str
    points: tuple[Point, ...]
    band: str
    """The interval as the outline of an area."""
    path: str
    label_y: float


class CurvePlot(msgspec.Struct, frozen=True):
    """Lines, ticks and what they mean."""

    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    description: str


def known_of(view: str) -> int | None:
    """How many judgements a view shows; nothing for views that are no step of the curve.

    >>> known_of("none"), known_of("judgements:8"), known_of("posts:5")
    (0, 8, None)
    """
    if view == "none":
        return 0
    kind, _, number = view.partition(":")
    return int(number) if kind == "judgements" and number.isdigit() else None


def curve_plot(summary: Summary) -> CurvePlot | None:
    """Nothing where a run has fewer than three steps."""
    steps = sorted({known for result in summary.results if (known := known_of(result.view)) is not None})
    if len(steps) < 3:
        return None
    rows: dict[str, list[Result]] = {}
    for result in summary.results:
        if known_of(result.view) is not None and result.accuracy is not None and not is_control(result.rm):
            rows.setdefault(result.rm, []).append(result)
    ends = [bound for own in rows.values() for one in own for bound in (one.low, one.high, one.accuracy) if bound]
    low, high = math.floor(min(ends) * 20) / 20, math.ceil(max(ends) * 20) / 20
    placed = [_line(rm, own, steps, (low, high), place) for place, (rm, own) in enumerate(rows.items())]
    return CurvePlot(
        lines=tuple(_apart(placed)),
        across=tuple((_x(step, steps), str(step)) for step in steps),
        up=tuple((_y(value, low, high), percent(value).replace(".0", "")) for value in _ticks(low, high)),
        description=". ".join(
            f"{line.rm}: " + ", ".join(f"{point.known} known {point.text}" for point in line.points) for line in placed
        ),
    )


def _line(rm: str, own: list[Result], steps: list[int], ends: tuple[float, float], place: int) -> Line:
    own = sorted(own, key=lambda result: known_of(result.view) or 0)
    points, upper, lower = [], [], []
    for result in own:
        known = known_of(result.view) or 0
        x, value = _x(known, steps), result.accuracy or 0.0
        y = _y(value, *ends)
        points.append(Point(x, y, known, percent(value), percent_interval(result.low, result.high)))
        upper.append(f"{x:.1f},{_y(value if result.high is None else result.high, *ends):.1f}")
        lower.append(f"{x:.1f},{_y(value if result.low is None else result.low, *ends):.1f}")
    path = "M" + "L".join(f"{point.x:.1f},{point.y:.1f}" for point in points)
    band = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
    return Line(rm, _COLOURS[place % len(_COLOURS)], tuple(points), band, path, points[-1].y + 4)


def _apart(lines: list[Line]) -> list[Line]:
    """Labels at the ends of lines, pushed down until none covers another."""
    found: list[Line] = []
    last = -math.inf
    for line in sorted(lines, key=lambda one: one.label_y):
        last = max(line.label_y, last + 15)
        found.append(msgspec.structs.replace(line, label_y=last))
    return found


def _x(step: int, steps: list[int]) -> float:
    """Steps stand at like distances: they mostly double."""
    return LEFT + steps.index(step) * (WIDTH - LEFT - RIGHT) / (len(steps) - 1)


def _y(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / max(high - low, 1e-9) * (HEIGHT - TOP - BOTTOM)


def _ticks(low: float, high: float) -> list[float]:
    step = 0.05 if high - low <= 0.3 else 0.1
    return [low + step * place for place in range(int((high - low) / step + 1.001))]
