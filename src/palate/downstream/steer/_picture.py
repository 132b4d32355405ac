"""The picture of the page: does a reward model that knows the pairs also make the better text?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from palate.downstream.steer._results import SteerRow, SteerSummary
from palate.report import figure, percent

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 290, 16, 52
SHAPES = {"best-of-n": "square", "guided": "circle", "in-context": "line", "none": "line"}


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """One method at its reward accuracy."""

    x: float
    y: float
    label: str
    label_y: float
    kind: str
    colour: int
    """The same for the same reward model."""
    detail: str


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A method without a reward model: a line across."""

    y: float
    label: str
    label_y: float
    kind: str
    detail: str


class Scatter(msgspec.Struct, frozen=True, kw_only=True):
    """Dots, lines and ticks, placed."""

    key: str
    title: str
    across: str
    up: str
    dots: tuple[Dot, ...]
    levels: tuple[Level, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    description: str


def pictures(summary: SteerSummary) -> list[Scatter]:
    """Reward accuracy against policy accuracy, and against what ROUGE-1 gains over the policy alone: no controls."""
    shown = [row for row in summary.rows if not row.control]
    policy = {
        row.label: row.policy.value
        for row in shown
        if row.policy is not None and (row.kind == "guided" or row.decoding == "sampled")
    }
    gains = {
        one.one: one.difference for one in summary.differences if one.about == "over none" and one.measure == "rouge1"
    }
    gains |= {row.label: 0.0 for row in summary.rows if row.kind == "none" and row.decoding == "sampled"}
    drawn = [
        _scatter(shown, policy, percent, "policy", "Policy accuracy against reward accuracy", "policy accuracy"),
        _scatter(
            [row for row in shown if row.kind != "oracle"],
            gains,
            lambda value: figure(value, sign=True),
            "rouge1",
            "What ROUGE-1 gains over the policy alone, against reward accuracy",
            "ROUGE-1 over the policy alone",
        ),
    ]
    return [one for one in drawn if one is not None]


def _scatter(
    rows: Sequence[SteerRow], values: dict[str, float], said: Callable[[float], str], key: str, title: str, up: str
) -> Scatter | None:
    least = 0.05 if key == "policy" else 0.01
    shown = [row for row in rows if row.label in values]
    dotted = [row for row in shown if row.reward is not None]
    if not dotted:
        return None
    xs = [row.reward.value for row in dotted if row.reward is not None]
    names = list(dict.fromkeys(row.name for row in dotted))
    across, aside = _ticks([*xs, 0.5], 0.02), _ticks([values[row.label] for row in shown], least)
    x_range, y_range = (across[0], across[-1]), (aside[0], aside[-1])
    ends = _apart({row.label: _y(values[row.label], y_range) for row in shown})
    dots, levels = [], []
    for row in shown:
        y, detail = _y(values[row.label], y_range), f"{row.label}: {said(values[row.label])}"
        if row.reward is not None:
            detail += f", reward accuracy {percent(row.reward.value)}"
            dots.append(
                Dot(
                    x=_x(row.reward.value, x_range),
                    y=y,
                    label=row.label,
                    label_y=ends[row.label],
                    kind=SHAPES[row.kind],
                    colour=names.index(row.name),
                    detail=detail,
                )
            )
        else:
            levels.append(Level(y=y, label=row.label, label_y=ends[row.label], kind=row.kind, detail=detail))
    return Scatter(
        key=key,
        title=title,
        across="reward accuracy",
        up=up,
        dots=tuple(dots),
        levels=tuple(levels),
        x_ticks=tuple((_x(tick, x_range), percent(tick)) for tick in across),
        y_ticks=tuple((_y(tick, y_range), said(tick)) for tick in aside),
        description=". ".join([one.detail for one in dots] + [one.detail for one in levels]),
    )


def _ticks(values: Sequence[float], least: float) -> list[float]:
    """Round values at like distances around these, not nearer to each other than `least`.

    >>> [round(tick, 3) for tick in _ticks([0.47, 0.62], 0.02)]
    [0.45, 0.5, 0.55, 0.6, 0.65]
    """
    low, high = min(values), max(values)
    step = least
    for factor in (2.5, 2, 2) * 6:
        if (high - low) / step <= 5:
            break
        step *= factor
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if last == first:  # one value has its place in the middle
        first, last = first - 1, last + 1
    return [step * place for place in range(first, last + 1)]


def _x(value: float, ends: tuple[float, float]) -> float:
    return LEFT + (value - ends[0]) / (ends[1] - ends[0]) * (WIDTH - LEFT - RIGHT)


def _y(value: float, ends: tuple[float, float]) -> float:
    return TOP + (ends[1] - value) / (ends[1] - ends[0]) * (HEIGHT - TOP - BOTTOM)


def _apart(places: dict[str, float]) -> dict[str, float]:
    """Labels at the right, pushed down until none covers another, and up again where they run out of room."""
    order = sorted(places, key=lambda label: places[label])
    found: dict[str, float] = {}
    last = float("-inf")
    for label in order:
        last = max(places[label] + 4, last + 15)
        found[label] = last
    lowest = HEIGHT - BOTTOM + 8.0
    for label in reversed(order):
        found[label] = min(found[label], lowest)
        lowest = found[label] - 15
    return found
