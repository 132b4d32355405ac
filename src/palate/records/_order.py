"""Which of two events came first, as far as their records tell."""

from __future__ import annotations

from typing import Protocol


class Dated(Protocol):
    """Anything that may carry a date, or a place in its user's sequence."""

    @property
    def date(self) -> str | None: ...
    @property
    def sequence(self) -> int | None: ...


def came_before(event: Dated, item: Dated) -> bool:
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
