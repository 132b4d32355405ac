"""What the views of a run could not show, and how well its strangers match: said before any table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from palate.views import ViewSpec

MANY_EMPTY = 0.1
"""From this share of the items on, what a view lacks is said."""
_PARTS = {"posts": "post", "judgements": "judgement", "oracle": "aspect"}
"""The kinds of parts that pieces of a view are shown as, where they are called otherwise."""


class Shown(Protocol):
    """What one item was shown with."""

    @property
    def item(self) -> str: ...
    @property
    def draw(self) -> int: ...
    @property
    def kinds(self) -> dict[str, int]: ...
    @property
    def withheld(self) -> int: ...
    @property
    def closeness(self) -> str | None: ...


def view_warnings(spec: ViewSpec, shown: Sequence[Shown], items: int) -> list[str]:
    """What a reader should know of this view: what is empty, what was withheld, and who the strangers are."""
    if not shown or not spec.pieces:
        return []
    return [*_empty(spec, shown, items), *_withheld(spec, shown, items), *_strangers(spec, shown)]


def _empty(spec: ViewSpec, shown: Sequence[Shown], items: int) -> list[str]:
    found = []
    silent = spec.shows("user")
    nothing = len({line.item for line in shown if not line.kinds})
    if nothing and not silent and spec.is_profile:
        found.append(
            f"{spec.name}: {nothing} of {items} items have nothing to show; its gains are measured on the other "
            f"{items - nothing}."
        )
    for piece in spec.pieces if len(spec.pieces) > 1 else ():
        kind = _PARTS.get(piece.kind, piece.kind)
        lacking = len({line.item for line in shown if not line.kinds.get(kind)})
        if piece.kind != "user" and spec.is_profile and lacking > MANY_EMPTY * items:
            found.append(f"{spec.name}: {lacking} of {items} items have no {piece.kind} to show.")
    return found


def _withheld(spec: ViewSpec, shown: Sequence[Shown], items: int) -> list[str]:
    held_back = [line.withheld for line in shown if line.withheld]
    if not held_back or not spec.is_profile:
        return []
    return [
        f"{spec.name}: for {len(held_back)} of {items} items, history that holds a text of the item was left out "
        f"({sum(held_back)} pieces): it would tell the answer."
    ]


def _strangers(spec: ViewSpec, shown: Sequence[Shown]) -> list[str]:
    """Said only where strangers are poor controls: of another topic, though most are not, or with less to show."""
    if spec.whose != "swapped":
        return []
    circles = Counter(line.closeness for line in shown)
    near = sum(circles[name] for name in ("topic and batch", "topic", "batch"))
    found = []
    if near and circles["anybody"] > MANY_EMPTY * len(shown):
        found.append(
            f"{spec.name}: in {circles['anybody']} of {len(shown)} cases nobody of the same topic or batch has as much "
            "to show, and the stranger is anybody."
        )
    draws = np.array([line.draw for line in shown])
    if spec.draws > 1 and draws.max() + 1 < spec.draws:
        found.append(f"{spec.name}: only {draws.max() + 1} of {spec.draws} strangers could be found for any item.")
    return found
