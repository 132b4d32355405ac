"""A scatter plot of many models: an outcome against a predictor, each with its interval.

Places across are per cent of the width and places down are pixels, so that the plot stretches while its letters keep
their size. Every point has a number, which the key explains; where a wide page has room, it has its name as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from palate.report._plots import Axis, Mark, NumberFormat, group_marks, shortened

TOP, BOTTOM = 14, 382
"""Pixels from the top of the drawing to the highest and to the lowest tick."""
WIDE, NARROW = 640, 290
"""The widths in pixels for which labels are kept apart: of a screen, and of a phone."""
LETTER, LETTERS_HIGH = 7.0, 13.0
"""The room that a letter of a label takes in pixels."""
LONGEST_NAME = 24
MARK_ROOM = 6.0
"""How far a mark reaches from its centre."""


class ScatterPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One model, not placed yet; without a value in either direction it is not drawn."""

    label: str
    group: str
    """Such as the family: points of one group have one shape and colour."""
    x: float | None
    x_low: float | None = None
    x_high: float | None = None
    y: float | None
    y_low: float | None = None
    y_high: float | None = None


class PlacedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point in its place; limits are None where the interval is not known."""

    mark: Mark
    text: str
    x: float
    x_low: float | None
    x_high: float | None
    y: float
    y_low: float | None
    y_high: float | None


class PointLabel(msgspec.Struct, frozen=True):
    """The text beside a point, which starts, ends or has its middle `shift` pixels from `x`."""

    text: str
    x: float
    shift: float
    y: float
    anchor: str


class KeyEntry(msgspec.Struct, frozen=True):
    """A group and its points with their numbers."""

    group: str
    mark: Mark
    points: tuple[tuple[int, str], ...]


class Scatter(msgspec.Struct, frozen=True, kw_only=True):
    """A scatter plot ready to be drawn."""

    title: str
    x_title: str
    y_title: str
    description: str
    points: tuple[PlacedPoint, ...]
    wide_labels: tuple[PointLabel, ...]
    narrow_labels: tuple[PointLabel, ...]
    key: tuple[KeyEntry, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_references: tuple[tuple[float, str], ...]
    y_references: tuple[tuple[float, str], ...]
    left_out: tuple[str, ...]
    """Names of models that lack a value."""


def draw_scatter(
    points: Sequence[ScatterPoint],
    *,
    x_title: str,
    y_title: str,
    x_format: NumberFormat,
    y_format: NumberFormat,
    title: str = "",
    x_references: Mapping[str, float] | None = None,
    y_references: Mapping[str, float] | None = None,
    groups: Sequence[str] = (),
) -> Scatter | None:
    """Points with intervals in both directions; nothing where no point has both values.

    References are dashed lines by name, such as `{"chance": 0.5}`. `groups` are all groups of the page, so that each
    looks the same in every plot.
    """
    complete = [
        (point, point.x, point.y)
        for point in points
        if point.x is not None and point.y is not None and math.isfinite(point.x) and math.isfinite(point.y)
    ]
    if not complete:
        return None
    complete.sort(key=lambda one: (-one[2], -one[1], one[0].label))
    shown = [point for point, _, _ in complete]
    verticals, horizontals = x_references or {}, y_references or {}
    ends = [end for point in shown for end in (point.x, point.x_low, point.x_high)]
    across = Axis.holding([*ends, *verticals.values()], 0.0, 100.0)
    ends = [end for point in shown for end in (point.y, point.y_low, point.y_high)]
    up = Axis.holding([*ends, *horizontals.values()], BOTTOM, TOP)
    marks = group_marks([*groups, *(point.group for point in points)])
    placed = [
        PlacedPoint(
            mark=marks[point.group],
            text=(
                f"{point.label} ({point.group}): "
                f"{x_title} {x_format.with_interval(x, point.x_low, point.x_high)}, "
                f"{y_title} {y_format.with_interval(y, point.y_low, point.y_high)}"
            ),
            x=across.at(x),
            x_low=across.place(point.x_low),
            x_high=across.place(point.x_high),
            y=up.at(y),
            y_low=up.place(point.y_low),
            y_high=up.place(point.y_high),
        )
        for point, x, y in complete
    ]
    x_lines = tuple((across.at(value), name) for name, value in verticals.items())
    y_lines = tuple((up.at(value), name) for name, value in horizontals.items())
    spots = [(point.x, point.y) for point in placed]
    numbers = [str(number) for number in range(1, len(placed) + 1)]
    names = [f"{number} {shortened(point.label, LONGEST_NAME)}" for number, point in zip(numbers, shown, strict=True)]
    numbered = list(enumerate(shown, 1))
    return Scatter(
        title=title or f"{y_title[:1].upper()}{y_title[1:]} against {x_title}",
        x_title=x_title,
        y_title=y_title,
        description=". ".join(
            [
                *(point.text for point in placed),
                *(f"Dashed line at {x_title} {x_format.value(value)}: {name}" for name, value in verticals.items()),
                *(f"Dashed line at {y_title} {y_format.value(value)}: {name}" for name, value in horizontals.items()),
            ]
        ),
        points=tuple(placed),
        wide_labels=place_labels(spots, numbers, names, WIDE, _taken(x_lines, y_lines, WIDE)),
        narrow_labels=place_labels(spots, numbers, numbers, NARROW, _taken(x_lines, y_lines, NARROW)),
        key=tuple(
            KeyEntry(group, mark, own)
            for group, mark in marks.items()
            if (own := tuple((number, point.label) for number, point in numbered if point.group == group))
        ),
        x_ticks=across.placed(x_format),
        y_ticks=up.placed(y_format),
        x_references=x_lines,
        y_references=y_lines,
        left_out=tuple(point.label for point in points if point not in shown),
    )


def _taken(x_lines: Sequence[tuple[float, str]], y_lines: Sequence[tuple[float, str]], width: float) -> list[Box]:
    """The room of the names of reference lines: at the foot of those that stand, at the right end of the others."""
    feet = [
        _room(x * width / 100 + (-5 if x > 50 else 5), BOTTOM - 10, name, "end" if x > 50 else "start")
        for x, name in x_lines
    ]
    return feet + [_room(width, y - 9, name, "end") for y, name in y_lines]


class Box(msgspec.Struct, frozen=True):
    """Room on the plot, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """In square pixels."""
        return (self.right - self.left) * (self.bottom - self.top)

    def shared(self, other: Box) -> float:
        """The area that both cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0


def place_labels(
    spots: Sequence[tuple[float, float]],
    numbers: Sequence[str],
    names: Sequence[str],
    width: float,
    taken: Sequence[Box] = (),
) -> tuple[PointLabel, ...]:
    """A label for each spot that covers no other label: its name where there is room, else its number.

    Those farthest from the middle come first to a name. A name covers no mark; a number may, and is left out where
    it would cover a label or what is `taken`.
    """
    centres = [(x * width / 100, y) for x, y in spots]
    marks = [Box(x - MARK_ROOM, y - MARK_ROOM, x + MARK_ROOM, y + MARK_ROOM) for x, y in centres]
    inside = Box(0, TOP - 12, width, BOTTOM)
    chosen: dict[int, tuple[Box, PointLabel]] = {}

    def choose(place: int, text: str, *, most: float) -> None:
        """The side that covers the least of the marks, if that is no more than `most` and no text is covered."""
        (x, y), best = centres[place], most
        texts = [*taken, *(box for other, (box, _) in chosen.items() if other != place)]
        for shift, drop, anchor in _SIDES:
            box = _room(x + shift, y + drop, text, anchor)
            if any(box.shared(other) for other in texts) or box.shared(inside) < box.area - 1e-6:
                continue
            covered = sum(box.shared(mark) for mark in marks)
            if covered < best:
                best = covered
                label = PointLabel(text, spots[place][0], shift, y + drop + LETTERS_HIGH / 2 - 2.5, anchor)
                chosen[place] = box, label

    middle = (median(x for x, _ in centres), median(y for _, y in centres))
    outer_first = sorted(range(len(spots)), key=lambda place: -math.dist(centres[place], middle))
    for place in reversed(outer_first):
        choose(place, numbers[place], most=math.inf)
    for place in outer_first:
        choose(place, names[place], most=1e-6)
    return tuple(label for _, (_, label) in sorted(chosen.items()))


# Shift, drop of the middle, anchor. Corners come first: what is straight beside a mark lies on its interval.
_SIDES = (
    (6.0, -9.0, "start"),
    (6.0, 9.0, "start"),
    (-6.0, -9.0, "end"),
    (-6.0, 9.0, "end"),
    (9.0, 0.0, "start"),
    (-9.0, 0.0, "end"),
    (0.0, -13.0, "middle"),
    (0.0, 13.0, "middle"),
)


def _room(x: float, y: float, text: str, anchor: str) -> Box:
    """The room of a text that starts, ends or has its middle at `x`."""
    long = LETTER * len(text)
    left = x - {"start": 0.0, "middle": long / 2, "end": long}[anchor]
    return Box(left, y - LETTERS_HIGH / 2, left + long, y + LETTERS_HIGH / 2)
