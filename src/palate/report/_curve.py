"""Curves over a few steps, drawn for a page; any floor may have some."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from palate.report._numbers import percent, percent_interval

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 150, 16, 44
LONGEST_LABEL = 20
"""Characters of a name at the end of its line."""
_COLOURS = ("none", "profile-0", "profile-1", "profile-2", "profile-3", "stranger-0", "oracle")


class Step(msgspec.Struct, frozen=True):
    """One value of a curve with its interval, not placed yet."""

    at: float
    """Steps stand in this order, at like distances; an infinite one is called large."""
    value: float
    low: float | None = None
    high: float | None = None


class Across(msgspec.Struct, frozen=True):
    """A value to compare curves with, not placed yet: a dashed line across."""

    name: str
    value: float
    like: str = ""
    """The curve whose colour it has; grey without one."""


class Point(msgspec.Struct, frozen=True):
    """One step, placed."""

    x: float
    y: float
    at: str
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


class Level(msgspec.Struct, frozen=True):
    """One line across, placed."""

    y: float
    colour: str
    text: str


class CurvePlot(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, ticks and what they mean."""

    key: str
    """Tells the plots of one page apart."""
    title: str
    axis: str
    lines: tuple[Line, ...]
    levels: tuple[Level, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    description: str

    @property
    def shortened(self) -> bool:
        """Whether a name does not fit beside its line."""
        return any(len(line.name) > LONGEST_LABEL for line in self.lines)


class Scale(msgspec.Struct, frozen=True):
    """How the values of a plot are written: one value, an interval, and the value beside a line across."""

    value: Callable[[float], str]
    interval: Callable[[float | None, float | None], str]
    tick: Callable[[float], str]


IN_PERCENT = Scale(percent, percent_interval, lambda value: percent(value).replace(".0", ""))


def draw_curves(
    curves: dict[str, list[Step]],
    scale: Scale,
    *,
    key: str,
    title: str,
    axis: str,
    step: str,
    across: Sequence[Across] = (),
    grey_first: bool = True,
) -> CurvePlot | None:
    """Any curves by name, with steps at like distances; nothing where there are none.

    `step` is what a step is called, such as `{} samples`; without `grey_first`, grey is left to lines across.
    """
    ends = [end for own in curves.values() for one in own for end in (one.low, one.high, one.value) if end is not None]
    if not ends:
        return None
    steps = sorted({one.at for own in curves.values() for one in own})
    ends += [one.value for one in across]
    ticks = _ticks(min(ends), max(ends))
    bounds = (ticks[0], ticks[-1])
    colours = _COLOURS if grey_first else _COLOURS[1:]
    colour = {name: colours[place % len(colours)] for place, name in enumerate(curves)}
    placed = [
        _line(name, colour[name], sorted(own, key=lambda one: one.at), steps, bounds, scale, step)
        for name, own in curves.items()
    ]
    levels = [
        Level(_y(one.value, *bounds), colour.get(one.like, "none"), f"{one.name}: {scale.value(one.value)}")
        for one in across
    ]
    said = [f"{line.name}: " + ", ".join(f"{point.at} {point.text}" for point in line.points) for line in placed]
    return CurvePlot(
        key=key,
        title=title,
        axis=axis,
        lines=tuple(_apart(placed)),
        levels=tuple(levels),
        across=tuple((_x(at, steps), _written(at)) for at in steps),
        up=tuple((_y(value, *bounds), scale.tick(value)) for value in ticks),
        description=". ".join([*said, *(level.text for level in levels)]),
    )


def _line(
    name: str,
    colour: str,
    own: Sequence[Step],
    steps: list[float],
    bounds: tuple[float, float],
    scale: Scale,
    called: str,
) -> Line:
    points, upper, lower = [], [], []
    for step in own:
        x, y = _x(step.at, steps), _y(step.value, *bounds)
        at, detail = called.format(_written(step.at)), scale.interval(step.low, step.high)
        points.append(Point(x, y, at, scale.value(step.value), detail))
        upper.append(f"{x:.1f},{_y(step.value if step.high is None else step.high, *bounds):.1f}")
        lower.append(f"{x:.1f},{_y(step.value if step.low is None else step.low, *bounds):.1f}")
    path = "M" + "L".join(f"{point.x:.1f},{point.y:.1f}" for point in points)
    band = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
    return Line(name, colour, tuple(points), band, path, points[-1].y + 4)


def _apart(lines: list[Line]) -> list[Line]:
    """Labels at the ends of lines, pushed down until none covers another."""
    found: list[Line] = []
    last = -math.inf
    for line in sorted(lines, key=lambda one: one.label_y):
        last = max(line.label_y, last + 15)
        found.append(msgspec.structs.replace(line, label_y=last))
    return found


def _written(at: float) -> str:
    """A step as a person writes it.

    >>> _written(1000000), _written(2.0), _written(1e6), _written(math.inf)
    ('1000000', '2', '1e+06', 'large')
    """
    if isinstance(at, int):
        return str(at)
    return "large" if math.isinf(at) else f"{at:g}"


def _x(step: float, steps: list[float]) -> float:
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
