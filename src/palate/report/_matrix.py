"""A matrix of coefficients, such as correlations: a table whose cells have a colour from a diverging scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from palate.report._numbers import ABSENT, MINUS
from palate.report._plots import NumberFormat

STEPS = 5
"""Shades on each side of zero."""


def _coefficient(value: float) -> str:
    """Two decimals with a sign.

    >>> _coefficient(-0.4567), _coefficient(0.001)
    ('−0.46', '0.00')
    """
    text = f"{value:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", MINUS)


def _coefficient_interval(low: float | None, high: float | None) -> str:
    return ABSENT if low is None or high is None else f"{_coefficient(low)} to {_coefficient(high)}"


COEFFICIENTS = NumberFormat(_coefficient, _coefficient_interval)


class MatrixCell(msgspec.Struct, frozen=True):
    """A coefficient with its 95% interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """What a pointer adds, such as `36 models`."""

    @property
    def clear(self) -> bool:
        """Whether the interval is known and does not hold zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class ShadedCell(msgspec.Struct, frozen=True):
    """A cell ready to be drawn."""

    text: str
    interval: str
    shade: str
    """Its classes in the style sheet: sign, step and whether it is pale."""
    title: str


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix ready to be drawn."""

    title: str
    corner: str
    """What rows and columns are."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[ShadedCell, ...]], ...]
    scale: tuple[tuple[str, str], ...]
    """The shades from the lowest to the highest value, and the texts of the ends and of the middle."""
    pale: str
    """What a pale colour means; empty where no cell is pale."""
    missing: bool


def draw_matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], MatrixCell],
    *,
    title: str = "Correlations",
    corner: str = "",
    written: NumberFormat = COEFFICIENTS,
    largest: float = 1.0,
) -> Matrix | None:
    """Cells by row and column; one that is not there, or is no number, is a dash. Nothing where there is no cell.

    `largest` is the absolute value that has the deepest colour.
    """
    if not any((row, column) in cells for row in rows for column in columns):
        return None
    shown = tuple((row, tuple(_shaded(row, column, cells, written, largest) for column in columns)) for row in rows)
    shaded = [cell for _, own in shown for cell in own]
    pale = [cell for cell in shaded if "pale" in cell.shade]
    unknown = "" if all(cell.interval for cell in pale) else " or is not known"
    return Matrix(
        title=title,
        corner=corner,
        columns=tuple(columns),
        rows=shown,
        scale=tuple(
            (_shade(step / STEPS, 1.0, clear=True), written.value(step * largest / STEPS) if step % STEPS == 0 else "")
            for step in range(-STEPS, STEPS + 1)
        ),
        pale=f"the 95% interval holds 0{unknown}" if pale else "",
        missing=any(cell.shade == "absent" for cell in shaded),
    )


def _shaded(
    row: str, column: str, cells: Mapping[tuple[str, str], MatrixCell], written: NumberFormat, largest: float
) -> ShadedCell:
    cell = cells.get((row, column))
    if cell is None or cell.value is None or not math.isfinite(cell.value):
        note = cell.note if cell is not None else ""
        return ShadedCell(ABSENT, "", "absent", f"{row}, {column}: {note or 'not known'}")
    interval = "" if cell.low is None or cell.high is None else written.interval(cell.low, cell.high)
    title = f"{row}, {column}: {written.with_interval(cell.value, cell.low, cell.high)}"
    shade = _shade(cell.value, largest, clear=cell.clear)
    return ShadedCell(written.value(cell.value), interval, shade, f"{title}; {cell.note}" if cell.note else title)


def _shade(value: float, largest: float, *, clear: bool) -> str:
    """The classes of a value's colour.

    >>> _shade(-0.5, 1.0, clear=True), _shade(0.05, 1.0, clear=False)
    ('below step-3', 'above step-1 pale')
    """
    step = min(STEPS, math.ceil(abs(value) / largest * STEPS - 1e-9))
    return f"{'below' if value < 0 else 'above'} step-{step}{'' if clear else ' pale'}"
