"""Accuracy on parts of the items, arranged for the page: one table for each model and view."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from palate.evaluation._report._groups import groups
from palate.evaluation._results import Slice, Summary

MOST_VALUES = 15
"""How many values of one field a table shows, those with most items first."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """The slices by one field."""

    name: str
    slices: tuple[Slice, ...]
    left_out: int


class SliceTable(msgspec.Struct, frozen=True, kw_only=True):
    """All slices of one model under one view."""

    rm: str
    view: str
    control: bool
    chance: float | None
    fields: tuple[Field, ...]


def slice_tables(summary: Summary) -> list[SliceTable]:
    """The tables in the order of the result table."""
    found: dict[tuple[str, str], dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for item in summary.slices:
        found[item.rm, item.view][item.by].append(item)
    return [
        SliceTable(
            rm=group.rm,
            view=row.label,
            control=group.control,
            chance=row.result.chance,
            fields=tuple(_field(by, slices) for by, slices in found[group.rm, row.result.view].items()),
        )
        for group in groups(summary)
        for row in group.rows
        if (group.rm, row.result.view) in found
    ]


def first_choice(tables: list[SliceTable]) -> int:
    """The table to open with: the first model that saw a profile, else the first of all."""
    wanted = (
        position for position, table in enumerate(tables) if not table.control and table.view not in ("none", "oracle")
    )
    return next(wanted, 0)


def _field(by: str, slices: list[Slice]) -> Field:
    ordered = sorted(slices, key=lambda item: (-item.n, item.value))
    shown = ordered[:MOST_VALUES]
    name = by.removeprefix("demographics.").replace("_", " ")
    return Field(name=name, slices=tuple(shown), left_out=len(ordered) - len(shown))
