"""Users and what is known of them: posts they wrote and judgements they made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Post(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One text that a user wrote before."""

    id: str
    text: str
    date: str | None = None
    """ISO 8601, as precise as it is known: `2023`, `2023-05-14` or `2023-05-14T20:11:00`."""
    sequence: int | None = None
    """Place in this user's own order of events, for data without clock times."""
    category: str | None = None


class Judgement(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One choice that a user made before: a prompt, what was offered, what they took and why."""

    prompt: str
    responses: tuple[str, ...]
    preferred: int
    reason: str | None = None
    values: tuple[str, ...] = ()
    id: str | None = None
    date: str | None = None
    sequence: int | None = None

    @property
    def chosen(self) -> str:
        """The response that the user took."""
        return self.responses[self.preferred]

    @property
    def rejected(self) -> tuple[str, ...]:
        """The responses that the user left."""
        return self.responses[: self.preferred] + self.responses[self.preferred + 1 :]


class User(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A stable id with what is known of the person."""

    id: str
    demographics: dict[str, str | list[str]] = {}
    values: tuple[str, ...] = ()
    posts: tuple[Post, ...] = ()
    judgements: Sequence[Judgement] = ()
