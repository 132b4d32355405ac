"""Rewards of texts while they are being written: many candidates a step, each a little longer than the last.

A reward model may have a method `follow(asks, room)` that gives a follower of its own, which keeps what it has read;
`classifier`, `likelihood`, `pmi`, `dpo` and `embedding` have one. Any other is asked anew for all candidates of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from palate.engine import Failure
from palate.records import Ask, Rating, RewardModel
from palate.rewards._rate import named_in_errors, rate, sound

Candidates = Mapping[int, Sequence[str]]
"""For some of the asks, by their place, what their answer may be."""


class Follower(Protocol):
    """Rates candidates for the prompts and views of some asks, again and again."""

    def rate(self, candidates: Candidates) -> dict[int, Rating]:
        """For each place a rating of its candidates, the same that a whole ask of them would get."""
        ...


def follow(model: RewardModel, asks: Sequence[Ask], room: int = 0) -> Follower:
    """Follow the answers to these asks, each as long as its longest response and `room` tokens more."""
    own = getattr(model, "follow", None)
    with named_in_errors(model):
        found: Follower | None = own(asks, room) if own is not None else None
    return _Asking(model, asks) if found is None else _Checked(model, found)


class _Checked:
    """A follower of the model's own, which is trusted no more than its `rate` is."""

    def __init__(self, model: RewardModel, follower: Follower) -> None:
        self._model = model
        self._follower = follower

    def rate(self, candidates: Candidates) -> dict[int, Rating]:
        with named_in_errors(self._model):
            ratings = self._follower.rate(candidates)
        return {place: sound(self._model, len(candidates[place]), rating) for place, rating in ratings.items()}


class _Asking:
    """Every step is an ask of its own."""

    def __init__(self, model: RewardModel, asks: Sequence[Ask]) -> None:
        self._model = model
        self._asks = asks

    def rate(self, candidates: Candidates) -> dict[int, Rating]:
        asked = [
            msgspec.structs.replace(self._asks[place], responses=tuple(texts), shown=None)
            for place, texts in candidates.items()
        ]
        return dict(zip(candidates, rate(self._model, asked), strict=True))


class Following:
    """A follower from a function of scores; what fails is unscored."""

    def __init__(self, score: Callable[[Candidates], Mapping[int, list[float] | Failure]]) -> None:
        self._score = score

    def rate(self, candidates: Candidates) -> dict[int, Rating]:
        """The scores as ratings."""
        return {
            place: Rating(unscored=found.reason) if isinstance(found, Failure) else Rating(found)
            for place, found in self._score(candidates).items()
        }
