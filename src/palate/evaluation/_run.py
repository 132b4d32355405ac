"""A run: the folder that holds everything about one measurement.

    settings.json   resolved settings, versions and hashes
    items.jsonl     the comparisons that were rated, with their labels
    parts.jsonl     every piece of a profile that was shown, once
    views.jsonl     which pieces each item's view was made of
    ratings.jsonl   every rating, in the order in which it was made

All but the first grow by whole lines only. A last line torn by a crash is dropped and made again; any other line that
cannot be read is an error.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from palate.evaluation._settings import Settings
from palate.records import Rating, View
from palate.runs._folder import RunFolder
from palate.runs._ledger import Appender, Ledger, Needs

Key = tuple[str, str, str, int]
"""A model, a view, an item, and which of the view's strangers."""


class RatedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A comparison as the run keeps it: texts, label, and what the slices need."""

    id: str
    user_id: str
    prompt: str
    responses: tuple[str, ...]
    preferred: int
    category: str | None = None
    difficulty: str | None = None
    twin: str | None = None
    group: str | None = None
    traits: dict[str, str] = {}
    """The user's demographics that have one value each."""
    known: int | None = None
    """How many judgements of this user the trained models could learn from, in runs of `palate train`."""


class RatingLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ratings.jsonl`; the numbers stand in the order of the item's responses."""

    rm: str
    view: str
    item: str
    draw: int = 0
    """Which of the view's strangers it was rated with."""
    rating: Rating

    @property
    def key(self) -> Key:
        """What is rated once and once only."""
        return self.rm, self.view, self.item, self.draw


class ViewLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `views.jsonl`: whose profile an item was shown with, and of which parts."""

    view: str
    item: str
    draw: int = 0
    user_id: str | None = None
    parts: tuple[str, ...] = ()
    kinds: dict[str, int] = {}
    """How many parts of each kind it shows."""
    dropped: int = 0
    withheld: int = 0
    """Pieces of history that hold a text of the item, and so are not among the parts."""
    closeness: str | None = None
    """What a stranger has in common with the user."""


def _view_of(line: RatingLine) -> list[tuple[str, str, int]]:
    """What a rating was made with; where there was nothing to show and nobody was asked, no view."""
    asked = line.rating.scores is not None or line.rating.raw is not None
    return [(line.view, line.item, line.draw)] if asked else []


class PartLine(msgspec.Struct, frozen=True):
    """One line of `parts.jsonl`."""

    key: str
    text: str


ITEMS = Ledger("items.jsonl", RatedItem, lambda line: line.id)
PARTS = Ledger("parts.jsonl", PartLine, lambda line: line.key)
VIEWS = Ledger(
    "views.jsonl", ViewLine, lambda line: (line.view, line.item, line.draw), Needs(PARTS, lambda line: line.parts)
)
RATINGS = Ledger("ratings.jsonl", RatingLine, lambda line: line.key, Needs(VIEWS, _view_of))


class Run(RunFolder[Settings]):
    """Reads a run folder, and adds to it while it is open for writing."""

    settings_type = Settings
    made_by = "palate eval or palate train"
    hint = " Runs of palate bon, palate guide and palate ppo are read by palate report alone."

    @property
    def ledgers(self) -> Sequence[Ledger[Any]]:
        """The files that grow by lines, each after those that it needs."""
        return ITEMS, PARTS, VIEWS, RATINGS

    def items(self) -> list[RatedItem]:
        """What was to be rated."""
        return list(ITEMS.read(self.folder))

    def ratings(self) -> Iterator[RatingLine]:
        """Every rating once."""
        return RATINGS.read(self.folder)

    def views(self) -> list[ViewLine]:
        """What each item was shown with."""
        return list(VIEWS.read(self.folder))

    def parts(self) -> dict[str, str]:
        """The text of every part, by its key."""
        return {line.key: line.text for line in PARTS.read(self.folder)}


class RunWriter:
    """Adds ratings to a run. One process at a time; whatever is written stays written."""

    def __init__(self, run: Run) -> None:
        self._ratings = Appender(run.folder / "ratings.jsonl")
        self._views = Appender(run.folder / "views.jsonl")
        self._parts = Appender(run.folder / "parts.jsonl")
        self.done: set[Key] = {line.key for line in run.ratings()}
        self._views_done = {(line.view, line.item, line.draw) for line in run.views()}
        self._parts_done = set(run.parts())

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for appender in (self._ratings, self._views, self._parts):
            appender.close()

    def add_ratings(self, lines: Iterable[RatingLine]) -> None:
        """Keep a batch; when this returns it is on the disk."""
        new = [line for line in lines if line.key not in self.done]
        self._ratings.append(new)
        self.done.update(line.key for line in new)

    def add_views(self, views: Iterable[tuple[str, View]], draw: int = 0) -> None:
        """Keep what was shown with these items, in a view of strangers with those of this draw."""
        lines, parts = [], []
        for item, view in views:
            if (view.name, item, draw) in self._views_done:
                continue
            keys = []
            for part in view.parts:
                key = hashlib.sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
                keys.append(key)
                if key not in self._parts_done:
                    self._parts_done.add(key)
                    parts.append(PartLine(key, part.text))
            lines.append(
                ViewLine(
                    view=view.name,
                    item=item,
                    draw=draw,
                    user_id=view.user_id,
                    parts=tuple(keys),
                    kinds=dict(Counter(part.kind for part in view.parts)),
                    dropped=view.dropped,
                    withheld=view.withheld,
                    closeness=view.closeness,
                )
            )
            self._views_done.add((view.name, item, draw))
        self._parts.append(parts)
        self._views.append(lines)
