"""What a critic is: it says how well a free text serves a user, where there is no pair to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from palate.records._benchmark import Comparison, Completion


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was written for a user's prompt, to be judged."""

    item: Comparison | Completion
    """Whose prompt it answers; what a critic may know of the user's truth is in here."""
    text: str


class Grade(msgspec.Struct, frozen=True):
    """A critic's answer: a score, higher is better; or *unscored* with the reason, never a made-up number."""

    score: float | None = None
    unscored: str | None = None
    parts: dict[str, float] = {}
    """What the score is made of, such as one number for each aspect or measure."""

    def __post_init__(self) -> None:
        if (self.score is None) == (self.unscored is None):
            raise ValueError("a Grade has either a score or a reason why it is unscored, and not both")


@runtime_checkable
class Critic(Protocol):
    """Anything that judges drafts."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Changes with anything that could change a mark."""

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        """Refuse, with a clear message, items that this critic can say nothing about."""

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        """One mark for each draft, in the same order."""
