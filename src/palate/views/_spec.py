"""The language in which views are named: `none`, `posts:5`, `demographics+judgements:4`, `swapped`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from palate.records import PalateError, unknown_name

Whose = Literal["own", "swapped", "twin", "co-annotator"]
OTHERS: tuple[Whose, ...] = ("swapped", "twin", "co-annotator")
"""Views of somebody else: a stranger, whoever has the opposite label, somebody who judged the same pair."""
MOST_STRANGERS = 1_000
STRANGERS = 3
"""How many people an item is shown with, one after the other, where any of several would do."""

HISTORY = ("posts", "judgements")
PLAIN = ("demographics", "values", "oracle", "user")
"""`user` shows no words: it only says who it is, for models that were trained on this user."""
NEIGHBOURS = "neighbours"
"""Fills up the history of a view, or what its writer reads, from that many similar users."""
WRITTEN = ("persona", "plan")
"""Views that a language model writes from the history."""
VIEWS = {
    "none": "Nothing of the user.",
    "posts": "Past posts; posts:5 shows the five that fit the question best.",
    "judgements": "Past choices; judgements:4 shows the four that fit the question best.",
    "demographics": "What the user said of themselves.",
    "values": "What the user holds dear.",
    "user": "No words, only who it is, for models that were trained on this user.",
    "oracle": "The true rubric of the item: what perfect knowledge would bring.",
    "persona": "A portrait that a language model writes from the history.",
    "plan": "What a good answer should do, written by a language model from the history.",
    "neighbours": "judgements:4+neighbours:3 fills up what is short of four from the three most similar users.",
    "swapped": "The profile of a stranger, in place of the user's own.",
    "twin": "The profile of whoever has the opposite label.",
    "co-annotator": "The profile of somebody else who judged the same pair.",
}


class Piece(msgspec.Struct, frozen=True):
    """One kind of thing that a view shows, and at most how many of it."""

    kind: str
    most: int | None = None


class ViewSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a view shows and whose it is.

    >>> parse_view("swapped:posts:3+values")
    ViewSpec(name='swapped:posts:3+values', pieces=(Piece(kind='posts', most=3),
        Piece(kind='values', most=None)), whose='swapped', of='posts:3+values', draws=3)
    """

    name: str
    pieces: tuple[Piece, ...] = ()
    whose: Whose = "own"
    of: str | None = None
    draws: Annotated[int, msgspec.Meta(ge=1, le=MOST_STRANGERS)] = 1
    """How many strangers each item is shown with; what they come to is averaged."""

    def shows(self, kind: str) -> bool:
        """Whether a piece of this kind is part of the view."""
        return any(piece.kind == kind for piece in self.pieces)

    @property
    def neighbours(self) -> int:
        """From how many similar users the history is filled up."""
        return next((piece.most or 0 for piece in self.pieces if piece.kind == NEIGHBOURS), 0)

    @property
    def is_profile(self) -> bool:
        """Whether it shows the user's own history or traits, and so can be swapped with a stranger's."""
        return self.whose == "own" and bool(self.pieces) and not self.shows("oracle")


def parse_view(text: str, *, strangers: int = STRANGERS) -> ViewSpec:
    """Read one view; `swapped`, `twin` and `co-annotator` need to name what is taken from somebody else."""
    name = text.strip()
    whose, colon, rest = name.partition(":")
    if not 1 <= strangers <= MOST_STRANGERS:
        raise PalateError(f"the number of strangers is from 1 to {MOST_STRANGERS:,}; {strangers} was given")
    if whose in OTHERS:
        if not colon:
            raise PalateError(f"the view {name!r} needs a profile view beside it, or say what to take: {name}:posts:5")
        own = parse_view(rest)
        if not own.is_profile:
            raise PalateError(f"the view {name!r} takes somebody else's profile, and {rest!r} shows none")
        draws = 1 if whose == "twin" else strangers
        return ViewSpec(name=name, pieces=own.pieces, whose=whose, of=own.name, draws=draws)
    if name == "none":
        return ViewSpec(name="none")
    pieces = tuple(_parse_piece(piece, name) for piece in name.split("+"))
    repeated = {piece.kind for piece in pieces if sum(piece.kind == other.kind for other in pieces) > 1}
    if repeated:
        raise PalateError(f"the view {name!r} names {', '.join(sorted(repeated))} twice")
    if any(piece.kind == NEIGHBOURS for piece in pieces):
        _require_something_to_fill(pieces, name)
    return ViewSpec(name=name, pieces=pieces)


def _parse_piece(text: str, view: str) -> Piece:
    kind, colon, number = text.strip().partition(":")
    if kind not in (*HISTORY, *PLAIN, *WRITTEN, NEIGHBOURS):
        where = "" if text == view else f" (in {view!r})"
        raise unknown_name("view", kind + where, VIEWS, hint="Combine them with +, as in values+posts:5.")
    if not colon and kind != NEIGHBOURS:
        return Piece(kind)
    if kind not in (*HISTORY, NEIGHBOURS):
        raise PalateError(f"the view {kind!r} takes no number; {text!r} was given")
    if not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise PalateError(f"the view {text!r} needs a whole number from 1 after the colon, as in {kind}:5")
    return Piece(kind, int(number))


def _require_something_to_fill(pieces: Sequence[Piece], view: str) -> None:
    whole = [piece.kind for piece in pieces if piece.kind in HISTORY and piece.most is None]
    if whole:
        raise PalateError(
            f"the view {view!r} shows all {whole[0]}, so it cannot be said when neighbours should fill them up; say up "
            f"to how many: {whole[0]}:4"
        )
    if not any(piece.kind in (*HISTORY, *WRITTEN) for piece in pieces):
        raise PalateError(
            f"the view {view!r} has no history that neighbours could fill up; join them to posts:5, judgements:4, "
            "persona or plan, as in plan+neighbours:3"
        )


def drawn(views: Iterable[ViewSpec]) -> list[tuple[ViewSpec, int]]:
    """Each view with the number of each of its strangers, in the order in which they are rated.

    >>> [(view.name, draw) for view, draw in drawn(resolve_views(["posts:5", "swapped"], strangers=2))]
    [('posts:5', 0), ('swapped', 0), ('swapped', 1)]
    """
    return [(view, draw) for view in views for draw in range(view.draws)]


def resolve_views(names: Sequence[str], *, strangers: int = STRANGERS) -> list[ViewSpec]:
    """Read the views of one table; a bare `swapped`, `twin` or `co-annotator` stands for each profile view beside it.

    >>> [view.name for view in resolve_views(["none", "posts:5", "swapped"])]
    ['none', 'posts:5', 'swapped']
    >>> [view.name for view in resolve_views(["posts:5", "values", "swapped"])]
    ['posts:5', 'values', 'swapped:posts:5', 'swapped:values']
    """
    profiles = [parse_view(name) for name in names if name.strip() not in OTHERS]
    profiles = [view for view in profiles if view.is_profile]
    views: list[ViewSpec] = []
    for name in (name.strip() for name in names):
        if name in OTHERS and profiles:
            for own in profiles:
                label = name if len(profiles) == 1 else f"{name}:{own.name}"
                spec = parse_view(f"{name}:{own.name}", strangers=strangers)
                views.append(msgspec.structs.replace(spec, name=label))
        else:
            views.append(parse_view(name, strangers=strangers))
    labels = [view.name for view in views]
    if len(set(labels)) < len(labels):
        raise PalateError(f"a view is named twice: {', '.join(names)}")
    return views
