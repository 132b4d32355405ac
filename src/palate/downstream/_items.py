"""Prompts as the runs of this floor keep them, and what was shown of their users."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation import view_warnings
from palate.records import Comparison
from palate.report import Finding, Table
from palate.runs import VIEWS, Item, Ledger, Run, ViewLine
from palate.views import ViewSpec


class PromptItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt with whose it is; a comparison with its responses."""

    id: str
    user_id: str
    prompt: str
    category: str | None = None
    twin: str | None = None
    responses: tuple[str, ...] = ()
    preferred: int | None = None
    held_out: bool = True
    """False for what a policy was trained on."""

    def __post_init__(self) -> None:
        if self.preferred is not None and not 0 <= self.preferred < len(self.responses):
            raise ValueError(f"preferred is {self.preferred}, and there are {len(self.responses)} responses")


ITEMS = Ledger("items.jsonl", PromptItem, lambda line: line.id, about="items")


def prompt_item(item: Item) -> PromptItem:
    """The item as a run keeps it."""
    pair = item if isinstance(item, Comparison) else None
    return PromptItem(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        category=item.category,
        twin=pair.twin if pair else None,
        responses=pair.responses if pair else (),
        preferred=pair.preferred if pair else None,
    )


MOST_BROWSED = 500
"""Items that a page holds."""


def browsed(items: Iterable[PromptItem], most: int = MOST_BROWSED) -> list[PromptItem]:
    """The items of a page: all of them, or as many as it can hold, drawn by their ids."""
    every = list(items)
    kept = {item.id for item in sorted(every, key=lambda item: hashlib.sha256(item.id.encode()).digest())[:most]}
    return [item for item in every if item.id in kept]


class ViewShown(msgspec.Struct, frozen=True, kw_only=True):
    """What one view showed over all items of a run."""

    view: str
    items: int
    empty: int
    """Items for which it shows nothing."""
    missing: int
    """Items that cannot have it, such as those without a stranger."""
    strangers: int
    """How many different people stand in for each user, at most; 0 for a user's own view."""
    pieces: float
    """The mean number of pieces that it shows, where it shows any."""
    withheld: int
    """Pieces of history that hold a text of their item, and so were left out."""


class Seen:
    """What every view of a run showed, in the order of its items."""

    def __init__(self, run: Run[Any], items: Sequence[str]) -> None:
        self._places = {item: place for place, item in enumerate(items)}
        self._lines: dict[str, list[ViewLine]] = {}
        for line in run.read(VIEWS):
            if line.item in self._places:
                self._lines.setdefault(line.view, []).append(line)

    def shows(self, view: str) -> NDArray[np.bool_]:
        """Which items it shows something for."""
        found = np.zeros(len(self._places), dtype=np.bool_)
        for line in self._lines.get(view, ()):
            found[self._places[line.item]] |= line.shows
        return found

    def warnings(self, views: Sequence[ViewSpec]) -> list[Finding]:
        """What the views could not show, how well strangers match, and which controls are not there."""
        return [*self.shortfalls(views), *_without_controls(views)]

    def shortfalls(self, views: Sequence[ViewSpec]) -> list[Finding]:
        """What the views could not show, and how well strangers match."""
        items = len(self._places)
        return [
            Finding("warning", text)
            for view in views
            for text in view_warnings(
                view, [line for line in self._lines.get(view.name, ()) if not line.missing], items
            )
        ]

    def summary(self, views: Iterable[ViewSpec]) -> list[ViewShown]:
        """What each view that shows anything at all showed."""
        return [self._summary(view) for view in views if view.pieces]

    def _summary(self, view: ViewSpec) -> ViewShown:
        lines = self._lines.get(view.name, [])
        there = {line.item for line in lines if line.missing is None}
        parts = [sum(line.kinds.values()) for line in lines if line.shows]
        return ViewShown(
            view=view.name,
            items=len(self._places),
            empty=len(there) - int(self.shows(view.name).sum()),
            missing=len({line.item for line in lines} - there),
            strangers=0 if view.whose == "own" else view.draws,
            pieces=float(np.mean(parts)) if parts else 0.0,
            withheld=sum(line.withheld for line in lines),
        )


def _without_controls(views: Sequence[ViewSpec]) -> Iterator[Finding]:
    """Views of the user that stand alone."""
    for view in (view for view in views if view.is_profile):
        lacking = [] if any(other.name == "none" for other in views) else ["none"]
        if not any(other.whose != "own" and other.of == view.name for other in views):
            lacking.append("swapped")
        if lacking:
            yield Finding(
                "warning",
                f"{view.name} has no {' and no '.join(lacking)} to compare with, so this run cannot say whether its "
                f"gain is personal: add {' '.join(f'--view {name}' for name in lacking)}",
            )


def view_table(shown: Sequence[ViewShown]) -> Table | None:
    """What each view showed."""
    if not shown:
        return None
    return Table(
        title="What the views show",
        titles=("view", "items", "nothing to show", "cannot be had", "strangers", "pieces", "withheld"),
        words=1,
        rows=[
            (
                one.view,
                f"{one.items:,}",
                f"{one.empty:,}",
                f"{one.missing:,}",
                str(one.strangers or ""),
                f"{one.pieces:.1f}",
                f"{one.withheld:,}",
            )
            for one in shown
        ],
    )
