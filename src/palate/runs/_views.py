"""What was shown with each item: whose profile, of which pieces. Every kind of run keeps it.

views.jsonl     which pieces each item's view was made of
parts.jsonl     every piece of a profile that was shown, once
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palate.records import View
from palate.runs._ledger import Ledger, Needs
from palate.runs._run import Run, RunWriter
from palate.runs._setup import Item
from palate.views import Missing, ViewBuilder, ViewSpec, drawn

ViewKey = tuple[str, str, int]
"""A view, an item, and which of the view's strangers."""


class ViewLine(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `views.jsonl`: whose profile an item was shown with, and of which parts."""

    view: str
    item: str
    draw: int = 0
    user_id: str | None = None
    parts: tuple[str, ...] = ()
    kinds: dict[str, int] = {}
    """How many parts of each kind it shows."""
    by_name: bool = False
    """Whether a model may call up what it learned of this user."""
    dropped: int = 0
    withheld: int = 0
    """Pieces of history that hold a text of the item, and so are not among the parts."""
    closeness: str | None = None
    """What a stranger has in common with the user."""
    neighbours: tuple[str, ...] = ()
    """Similar users from whose history it was filled up, or was written with."""
    missing: str | None = None
    """Why the item has no such view."""

    @property
    def key(self) -> ViewKey:
        """What is shown once."""
        return self.view, self.item, self.draw

    @property
    def shows(self) -> bool:
        """Whether a model can tell anything of the user by it."""
        return self.missing is None and (bool(self.parts) or self.by_name)


class PartLine(msgspec.Struct, gc=False, frozen=True):
    """One line of `parts.jsonl`."""

    key: str
    text: str


PARTS = Ledger("parts.jsonl", PartLine, lambda line: line.key, about="parts", label="parts of profiles")
VIEWS = Ledger(
    "views.jsonl", ViewLine, lambda line: line.key, Needs(PARTS, lambda line: line.parts), about="views", column=1
)


def add_views(
    writer: RunWriter, spec: ViewSpec, draw: int, items: Iterable[Item], views: Iterable[View | Missing]
) -> None:
    """Keep what was shown with these items, in a view of strangers with those of this draw."""
    lines, parts = [], []
    for item, view in zip(items, views, strict=True):
        if (spec.name, item.id, draw) in writer.keys(VIEWS):
            continue
        if isinstance(view, Missing):
            lines.append(ViewLine(view=spec.name, item=item.id, draw=draw, missing=view.reason))
            continue
        own = [PartLine(_part_key(part.text), part.text) for part in view.parts]
        parts += own
        lines.append(
            ViewLine(
                view=spec.name,
                item=item.id,
                draw=draw,
                user_id=view.user_id,
                parts=tuple(part.key for part in own),
                kinds=dict(Counter(part.kind for part in view.parts)),
                by_name=view.by_name,
                dropped=view.dropped,
                withheld=view.withheld,
                closeness=view.closeness,
                neighbours=view.neighbours,
            )
        )
    writer.add(PARTS, parts)
    writer.add(VIEWS, lines)


def keep_views(writer: RunWriter, builder: ViewBuilder, views: Iterable[ViewSpec], items: Sequence[Item]) -> None:
    """Write down what each view shows of each item; only what is missing is added."""
    for spec, draw in kept_views(views):
        missing = [item for item in items if (spec.name, item.id, draw) not in writer.keys(VIEWS)]
        if missing:
            add_views(writer, spec, draw, missing, builder.build(spec, missing, draw=draw))


def kept_views(views: Iterable[ViewSpec]) -> list[tuple[ViewSpec, int]]:
    """Each view that shows anything, with each of its strangers, in the order in which `keep_views` writes them."""
    specs: dict[str, ViewSpec] = {}
    for view in views:  # one that is both the policy's and a reward model's has the larger number of strangers
        if view.pieces and (view.name not in specs or specs[view.name].draws < view.draws):
            specs[view.name] = view
    return drawn(specs.values())


def profiles_shown(run: Run[Any], items: set[str]) -> dict[str, dict[str, str]]:
    """By item and view, the text that was shown of the person; the second stranger and others have a number."""
    lines = [line for line in run.read(VIEWS) if line.item in items and line.missing is None]
    wanted = {key for line in lines for key in line.parts}
    parts = {line.key: line.text for line in run.read(PARTS) if line.key in wanted}
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        text = "\n\n".join(parts[key] for key in line.parts if key in parts)
        found.setdefault(line.item, {})[view_label(line.view, line.draw)] = text
    return found


def view_label(view: str, draw: int) -> str:
    """The name of a view, with a number for its second stranger and those that follow."""
    return f"{view} ({draw + 1})" if draw else view


def _part_key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
