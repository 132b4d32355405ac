"""What of a user's history may be shown for an item: only what came before it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from palate.records import Comparison, Completion, Judgement, Post, User

Item = Comparison | Completion
Event = TypeVar("Event", Post, Judgement)


class _Dated(Protocol):
    @property
    def date(self) -> str | None: ...
    @property
    def sequence(self) -> int | None: ...


def came_before(event: _Dated, item: _Dated) -> bool:
    """Whether a piece of history is older than the item.

    Dates are compared at the precision that both have, and a draw counts as not before: a post of
    the same day may have been written after the question. What has no date and no place in the
    user's sequence is history by the benchmark's own word.

    >>> from palate.records import Post
    >>> came_before(Post(id="1", text="", date="2023-05-14"), Post(id="2", text="", date="2023-05-14T20:00"))
    False
    """
    if event.date is not None and item.date is not None:
        shared = min(len(event.date), len(item.date))
        if event.date[:shared] != item.date[:shared] or event.sequence is None or item.sequence is None:
            return event.date[:shared] < item.date[:shared]
    if event.sequence is not None and item.sequence is not None:
        return event.sequence < item.sequence
    return True


def visible_posts(user: User, item: Item) -> list[Post]:
    """The user's posts from before the item, oldest first."""
    return _oldest_first([post for post in user.posts if came_before(post, item)])


def visible_judgements(user: User, item: Item) -> list[Judgement]:
    """The user's judgements from before the item, oldest first, and none of the item's own responses."""
    own = set(item.responses) if isinstance(item, Comparison) else None
    return _oldest_first(
        [
            judgement
            for judgement in user.judgements
            if came_before(judgement, item) and (own is None or set(judgement.responses) != own)
        ]
    )


def _oldest_first(events: list[Event]) -> list[Event]:
    """By date, then by sequence, then as listed; a benchmark without either lists the oldest first."""
    return sorted(events, key=lambda event: (event.date or "", event.sequence or 0))
