"""The geometry of a plot of numbers with intervals, one row each; the template draws it.

Horizontal places are per cent of the plot's width, so that it stretches from a phone to a projector
while its letters keep their size; vertical places are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

ROW_HEIGHT = 26
TITLE_HEIGHT = 34
TOP = 4
BOTTOM = 46
LONGEST_LABEL = 22
LONGEST_TITLE = 40


class Mark(msgspec.Struct, frozen=True):
    """How one series is told from the others: a shape and a colour."""

    shape: str
    colour: str


class PlotRow(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval, before it has a place."""

    label: str
    mark: Mark
    value: float | None
    low: float | None
    high: float | None
    reference: float | None
    """Where the row's dashed line stands: chance, or zero."""
    text: str
    detail: str
    """What a wide screen adds to the text."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one model."""

    title: str
    dim: bool
    rows: tuple[PlotRow, ...]


class PlacedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row with its place."""

    row: PlotRow
    label: str
    y: int
    x: float | None
    low: float | None
    high: float | None
    reference: float | None


class PlacedBand(msgspec.Struct, frozen=True, kw_only=True):
    """A band with its place."""

    title: str
    dim: bool
    top: int
    rows_top: int
    height: int
    rows: tuple[PlacedRow, ...]


class Tick(msgspec.Struct, frozen=True):
    """A labelled line of the scale."""

    x: float
    text: str


class IntervalPlot(msgspec.Struct, frozen=True, kw_only=True):
    """A plot ready to be drawn."""

    name: str
    title: str
    description: str
    axis: str
    height: int
    bottom: int
    ticks: tuple[Tick, ...]
    bands: tuple[PlacedBand, ...]


class Scale(msgspec.Struct, frozen=True):
    """A linear scale from `low` to `high`, with a tick at every multiple of `step`."""

    low: float
    high: float
    step: float

    def place(self, value: float | None) -> float | None:
        """Where a value stands, in per cent of the width."""
        if value is None or not math.isfinite(value):
            return None
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 3)

    def values(self) -> list[float]:
        """Where the ticks stand."""
        first, last = round(self.low / self.step), round(self.high / self.step)
        return [index * self.step for index in range(first, last + 1)]


def scale_for(rows: Iterable[PlotRow], steps: Sequence[float]) -> Scale:
    """The smallest round scale that holds every interval, with no more than nine ticks."""
    known = [
        number
        for row in rows
        for number in (row.value, row.low, row.high, row.reference)
        if number is not None and math.isfinite(number)
    ] or [0.0, 1.0]
    for step in steps:
        low = math.floor(min(known) / step + 1e-9)
        high = max(low + 1, math.ceil(max(known) / step - 1e-9))
        if high - low <= 8:
            break
    return Scale(low * step, high * step, step)


def place_plot(
    bands: Sequence[Band], scale: Scale, *, name: str, title: str, description: str, axis: str,
    tick_text: Sequence[str],
) -> IntervalPlot:  # fmt: skip
    """Give every row its place, band under band."""
    placed, y = [], TOP
    for band in bands:
        height = TITLE_HEIGHT + ROW_HEIGHT * len(band.rows)
        placed.append(_place_band(band, scale, y, height))
        y += height
    return IntervalPlot(
        name=name,
        title=title,
        description=description,
        axis=axis,
        height=y + BOTTOM,
        bottom=y + 6,
        ticks=tuple(
            Tick(scale.place(value) or 0.0, text) for value, text in zip(scale.values(), tick_text, strict=True)
        ),
        bands=tuple(placed),
    )


def shortened(text: str, longest: int) -> str:
    """A long name without its middle, since both ends tell names apart.

    >>> shortened("hf:organisation/reward-model-8b", 19)
    'hf:organi…-model-8b'
    """
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


def _place_band(band: Band, scale: Scale, top: int, height: int) -> PlacedBand:
    rows = tuple(
        PlacedRow(
            row=row,
            label=shortened(row.label, LONGEST_LABEL),
            y=top + TITLE_HEIGHT + ROW_HEIGHT * position + ROW_HEIGHT // 2,
            x=scale.place(row.value),
            low=scale.place(row.low),
            high=scale.place(row.high),
            reference=scale.place(row.reference),
        )
        for position, row in enumerate(band.rows)
    )
    title = shortened(band.title, LONGEST_TITLE)
    return PlacedBand(title=title, dim=band.dim, top=top, rows_top=top + TITLE_HEIGHT, height=height, rows=rows)
