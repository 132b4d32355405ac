"""Curves over a few steps, such as accuracy against how many judgements of the user are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from palate.evaluate._report._groups import is_control
from palate.evaluate._report._numbers import percent, percent_interval
from palate.evaluate._results import Summary

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 150, 16, 44
_COLOURS = ("none", "profile-0", "profile-1", "profile-2", "profile-3", "stranger-0", "oracle")


class Step(msgspec.Struct, frozen=True):
    """One value of a curve with its interval, not placed yet."""

    at: int
    value: float
    low: float | None = None
    high: float | None = None


class Point(msgspec.Struct, frozen=True):
    """One step, placed."""

    x: float
    y: float
    at: int
    text: str
    detail: str


class Line(msgspec.Struct, frozen=True):
    """One reward model, placed."""

    name: str
    colour: str
    points: tuple[Point, ...]
    band: str
    """The interval as the outline of an area."""
    path: str
    label_y: float


class CurvePlot(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, ticks and what they mean."""

    key: str
    """Tells the plots of one page apart."""
    title: str
    axis: str
    unit: str
    """What a step is called after its number."""
    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    description: str


class Scale(msgspec.Struct, frozen=True):
    """How the values of a plot are written: one value, an interval, and the value beside a line across."""

    value: Callable[[float], str]
    interval: Callable[[float | None, float | None], str]
    tick: Callable[[float], str]


SHARES = Scale(percent, percent_interval, lambda value: percent(value).replace(".0", ""))


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
    """The cold-start curve; nothing where a run has fewer than three steps."""
    curves: dict[str, list[Step]] = {}
    steps = {known for result in summary.results if (known := known_of(result.view)) is not None}
    if len(steps) < 3:
        return None
    for result in summary.results:
        known = known_of(result.view)
        if known is not None and result.accuracy is not None and not is_control(result.rm):
            curves.setdefault(result.rm, []).append(Step(known, result.accuracy, result.low, result.high))
    return draw_curves(
        curves,
        SHARES,
        key="curve",
        title="Accuracy against judgements known of the user",
        axis="judgements known of the user",
        unit="known",
    )


def draw_curves(
    curves: dict[str, list[Step]], scale: Scale, *, key: str, title: str, axis: str, unit: str
) -> CurvePlot | None:
    """Any curves by name, with steps at like distances; nothing where there are none."""
    ends = [end for own in curves.values() for one in own for end in (one.low, one.high, one.value) if end is not None]
    if not ends:
        return None
    steps = sorted({one.at for own in curves.values() for one in own})
    ticks = _ticks(min(ends), max(ends))
    bounds = (ticks[0], ticks[-1])
    placed = [
        _line(name, sorted(own, key=lambda step: step.at), steps, bounds, scale, place)
        for place, (name, own) in enumerate(curves.items())
    ]
    return CurvePlot(
        key=key,
        title=title,
        axis=axis,
        unit=unit,
        lines=tuple(_apart(placed)),
        across=tuple((_x(step, steps), str(step)) for step in steps),
        up=tuple((_y(value, *bounds), scale.tick(value)) for value in ticks),
        description=". ".join(
            f"{line.name}: " + ", ".join(f"{point.at} {unit} {point.text}" for point in line.points) for line in placed
        ),
    )


def _line(
    name: str, own: Sequence[Step], steps: list[int], bounds: tuple[float, float], scale: Scale, place: int
) -> Line:
    points, upper, lower = [], [], []
    for step in own:
        x, y = _x(step.at, steps), _y(step.value, *bounds)
        points.append(Point(x, y, step.at, scale.value(step.value), scale.interval(step.low, step.high)))
        upper.append(f"{x:.1f},{_y(step.value if step.high is None else step.high, *bounds):.1f}")
        lower.append(f"{x:.1f},{_y(step.value if step.low is None else step.low, *bounds):.1f}")
    path = "M" + "L".join(f"{point.x:.1f},{point.y:.1f}" for point in points)
    band = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
    return Line(name, _COLOURS[place % len(_COLOURS)], tuple(points), band, path, points[-1].y + 4)


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
    return LEFT + steps.index(step) * (WIDTH - LEFT - RIGHT) / max(1, len(steps) - 1)


def _y(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / max(high - low, 1e-9) * (HEIGHT - TOP - BOTTOM)


def _ticks(low: float, high: float) -> list[float]:
    """Round values at like distances, the first not above `low` and the last not below `high`, at most nine.

    >>> [round(tick, 2) for tick in _ticks(0.47, 0.62)]
    [0.45, 0.5, 0.55, 0.6, 0.65]
    >>> _ticks(-3.0, 18.0)
    [-5.0, 0.0, 5.0, 10.0, 15.0, 20.0]
    """
    spread = max(high - low, abs(high) * 1e-6, 1e-9)
    power = 10.0 ** math.floor(math.log10(spread))
    step = next(power * part for part in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if spread / (power * part) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * place for place in range(first, max(last, first + 1) + 1)]
