"""What the views of a run could not show, and how well its strangers match: said before any table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

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
    def user_id(self) -> str | None: ...
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
    """Said only where strangers are poor controls: of another topic, though many are not."""
    circles = Counter(line.closeness for line in shown)
    near = sum(circles[name] for name in ("topic and batch", "topic", "batch"))
    if spec.whose != "swapped" or not near or circles["anybody"] <= MANY_EMPTY * len(shown):
        return []
    return [
        f"{spec.name}: in {circles['anybody']} of {len(shown)} cases nobody of the same topic or batch has as much to "
        "show, and the stranger is anybody."
    ]


def stranger_match(spec: ViewSpec, shown: Sequence[Shown], own: Sequence[Shown]) -> list[str]:
    """Who stood in for the users in this view, in a sentence; nothing where nobody did."""
    if spec.whose not in ("swapped", "co-annotator") or not shown:
        return []
    drawn = Counter(line.item for line in shown)
    each = len(shown) / len(drawn)
    circles = Counter(line.closeness or "" for line in shown)
    near = ", ".join(f"{name} {share / len(shown):.0%}" for name, share in circles.most_common())
    found = f"{spec.name}: {each:.1f} strangers an item, {len({line.user_id for line in shown})} people; {near}"
    if not spec.shows("user") and own:
        pieces = {line.item: sum(line.kinds.values()) for line in own}
        theirs = [sum(line.kinds.values()) for line in shown]
        users = [pieces.get(line.item, 0) for line in shown]
        found += f". They show {sum(theirs) / len(shown):.1f} pieces where the user shows {sum(users) / len(shown):.1f}"
    if fewer := sum(strangers < spec.draws for strangers in drawn.values()):
        found += f". For {fewer} of {len(drawn)} items fewer than {spec.draws} could be found"
    return [found + "."]
