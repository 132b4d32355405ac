"""What of a user's history may be shown for an item: only what came before it."""

from __future__ import annotations

from typing import TypeVar

from palate.records import Comparison, Completion, Judgement, Post, User, came_before

Item = Comparison | Completion
Event = TypeVar("Event", Post, Judgement)


LONG_ENOUGH = 40
"""Characters from which a response that stands in a post was written by its author, and not by chance."""


def visible_posts(user: User, item: Item) -> list[Post]:
    """The user's posts from before the item, oldest first; of a stranger, none that holds one of its responses."""
    posts = [post for post in user.posts if came_before(post, item)]
    if user.id != item.user_id:
        texts = [text for text in _responses(item) if len(text) >= LONG_ENOUGH]
        posts = [post for post in posts if not any(text in post.text for text in texts)]
    return _oldest_first(posts)


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


def _responses(item: Item) -> tuple[str, ...]:
    return item.responses if isinstance(item, Comparison) else (item.text or "", *item.alternatives)


def _oldest_first(events: list[Event]) -> list[Event]:
    """By date, then by sequence, then as listed; a benchmark without either lists the oldest first."""
    return sorted(events, key=lambda event: (event.date or "", event.sequence or 0))
