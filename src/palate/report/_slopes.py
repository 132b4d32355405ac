"""Ranks by one measure and by another, joined by a line for each model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from palate.report._plots import SCORES, Mark, NumberFormat, group_marks, shortened, wrapped

ROW = 18
"""Pixels from one rank to the next."""
HEAD_LINE = 16
LONGEST_HEAD = 17
LONGEST_WIDE, LONGEST_NARROW = 34, 13
"""Letters of a name beside the plot: on a screen, and on a phone."""


class SlopeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model with both measures, of which the higher is the better; without either it is not drawn."""

    label: str
    group: str
    """Such as the family: models of one group have one shape and colour."""
    left: float | None
    right: float | None


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """A model's line in its place."""

    name: str
    short: str
    """The name on a phone."""
    mark: Mark
    left_rank: str
    right_rank: str
    left_y: int
    right_y: int
    strong: bool
    """Whether it is one of those that move most."""
    text: str


class Slopes(msgspec.Struct, frozen=True, kw_only=True):
    """A plot of two rankings ready to be drawn."""

    title: str
    description: str
    left_title: tuple[str, ...]
    right_title: tuple[str, ...]
    lines: tuple[Slope, ...]
    """The strong ones last, since they are drawn above the others."""
    height: int
    legend: dict[str, Mark]
    left_out: tuple[str, ...]
    """Names of models that lack a value."""


def draw_slopes(
    rows: Sequence[SlopeRow],
    *,
    left_title: str,
    right_title: str,
    title: str = "",
    left_format: NumberFormat = SCORES,
    right_format: NumberFormat = SCORES,
    emphasised: int = 6,
    groups: Sequence[str] = (),
) -> Slopes | None:
    """The best on top on both sides; nothing where no model has both values.

    Equal values share a rank and count as their mean rank when the `emphasised` models that move most are chosen.
    `groups` are all groups of the page, so that each looks the same in every plot.
    """
    complete = [
        (row, row.left, row.right)
        for row in rows
        if row.left is not None and row.right is not None and math.isfinite(row.left) and math.isfinite(row.right)
    ]
    if not complete:
        return None
    complete.sort(key=lambda one: (-one[1], -one[2], one[0].label))
    lefts, rights = [left for _, left, _ in complete], [right for _, _, right in complete]
    right_order = sorted(range(len(complete)), key=lambda place: (-rights[place], place))
    moves = [abs(left - right) for left, right in zip(mean_ranks(lefts), mean_ranks(rights), strict=True)]
    most = sorted((place for place, move in enumerate(moves) if move > 0), key=lambda place: -moves[place])[:emphasised]
    marks = group_marks([*groups, *(row.group for row in rows)])
    left_head, right_head = wrapped(left_title, LONGEST_HEAD), wrapped(right_title, LONGEST_HEAD)
    top = HEAD_LINE * max(len(left_head), len(right_head)) + ROW
    lines = [
        Slope(
            name=shortened(row.label, LONGEST_WIDE),
            short=shortened(row.label, LONGEST_NARROW),
            mark=marks[row.group],
            left_rank=(left_rank := _rank(lefts, left)),
            right_rank=(right_rank := _rank(rights, right)),
            left_y=top + ROW * place,
            right_y=top + ROW * right_order.index(place),
            strong=place in most,
            text=(
                f"{row.label} ({row.group}): {left_title} rank {left_rank} with {left_format.value(left)}, "
                f"{right_title} rank {right_rank} with {right_format.value(right)}"
            ),
        )
        for place, (row, left, right) in enumerate(complete)
    ]
    drawn = [row for row, _, _ in complete]
    return Slopes(
        title=title or f"Ranks by {left_title} and by {right_title}",
        description=". ".join(line.text for line in lines),
        left_title=left_head,
        right_title=right_head,
        lines=tuple(sorted(lines, key=lambda line: line.strong)),
        height=top + ROW * len(lines),
        legend={group: mark for group, mark in marks.items() if group in {row.group for row in drawn}},
        left_out=tuple(row.label for row in rows if row not in drawn),
    )


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from the highest value down, where equal values have the mean of their ranks.

    >>> mean_ranks([0.5, 0.9, 0.5])
    [2.5, 1.0, 2.5]
    """
    return [_count_above(values, value) + (1 + values.count(value)) / 2 for value in values]


def _rank(values: Sequence[float], value: float) -> str:
    """As a league table writes it, with a sign where it is shared.

    >>> _rank([0.5, 0.9, 0.5], 0.5)
    '2='
    """
    return f"{1 + _count_above(values, value)}{'=' if values.count(value) > 1 else ''}"


def _count_above(values: Sequence[float], value: float) -> int:
    return sum(other > value for other in values)
