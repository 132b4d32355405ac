"""Calling somebody else's reward model without trusting it, on whole texts and on texts while they are written.

While a text is written there are many candidates a step, each a little longer than the last. A reward model may have
a method `follow(asks, room)` that gives a follower of its own, which keeps what it has read; `classifier`,
`likelihood`, `pmi`, `dpo` and `embedding` have one. Any other rates all candidates of a step from scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from palate.engine import Failure, NotSentError, at_work, rehearsing
from palate.records import Ask, PalateError, Rating, RewardModel, describe_error

REWARD_MODEL = "reward model"
"""What a model is called that rates, where costs are counted."""
ROUNDING = 1e-3
"""By which probabilities may differ from what they should be."""


def rate(model: RewardModel, asks: Sequence[Ask]) -> list[Rating]:
    """One sound rating for each ask, or a clear error that names the model.

    Scores that are not finite numbers become *unscored*: they can be compared with nothing.
    """
    with at_work(REWARD_MODEL, model.name, len(asks)), named_in_errors(model):
        ratings = _rehearsed(model, asks) or list(model.rate(asks))
    if len(ratings) != len(asks):
        raise PalateError(f"the reward model {model.name!r} gave {len(ratings)} ratings for {len(asks)} asks")
    return [sound(model, len(ask.responses), rating) for ask, rating in zip(asks, ratings, strict=True)]


def _rehearsed(model: RewardModel, asks: Sequence[Ask]) -> list[Rating]:
    """In a rehearsal: ratings by nobody, in place of a model that may cost money; nothing where it can be asked."""
    meter = rehearsing()
    if meter is None:
        return []
    if type(model).__module__.partition(".")[0] == "palate":
        try:
            return list(model.rate(asks))
        except NotSentError:
            pass
    meter.not_asked()
    return [Rating([0.0] * len(ask.responses)) for ask in asks]


@contextmanager
def named_in_errors(model: RewardModel) -> Iterator[None]:
    """Whatever the model raises in here becomes an error that names it."""
    try:
        yield
    except PalateError:
        raise
    except Exception as error:
        raise PalateError(
            f"the reward model {model.name!r} failed: {describe_error(error)}. What was rated before is kept: "
            "run the same command again to resume, unless the model itself has changed."
        ) from error


def sound(model: RewardModel, responses: int, rating: Rating) -> Rating:
    """The rating of this number of responses if it can be used, *unscored* if its numbers are not finite."""
    if not isinstance(rating, Rating):
        raise PalateError(
            f"the reward model {model.name!r} gave a {type(rating).__name__} where a palate.Rating is needed"
        )
    for field, numbers in (("scores", rating.scores), ("probabilities", rating.probabilities)):
        if numbers is None:
            continue
        if len(numbers) != responses:
            raise PalateError(f"the reward model {model.name!r} gave {len(numbers)} {field} for {responses} responses")
        if not all(map(math.isfinite, numbers)):
            shown = ", ".join(str(number) for number in numbers)
            return msgspec.structs.replace(
                rating, scores=None, probabilities=None, unscored=f"{field} are not finite numbers: {shown}"
            )
    if rating.probabilities is not None and not are_probabilities(rating.probabilities):
        raise PalateError(
            f"the reward model {model.name!r} gave probabilities that are below 0 or do not add up to 1: "
            f"{rating.probabilities}"
        )
    return _encodable(rating)


def are_probabilities(numbers: Sequence[float]) -> bool:
    """Whether these can be, but for rounding, the probabilities of things of which one happens."""
    return all(number >= -ROUNDING for number in numbers) and math.isclose(sum(numbers), 1, abs_tol=ROUNDING)


def _encodable(rating: Rating) -> Rating:
    """A model's own words may hold half a character; a file of UTF-8 cannot."""
    if rating.unscored is rating.raw is rating.note is None:
        return rating
    words = {field: getattr(rating, field) for field in ("unscored", "raw", "note")}
    broken = {
        field: text.encode("utf-8", "replace").decode()
        for field, text in words.items()
        if text and any("\ud800" <= character <= "\udfff" for character in text)
    }
    return msgspec.structs.replace(rating, **broken) if broken else rating


Candidates = Mapping[int, Sequence[str]]
"""For some of the asks, by their place, what their answer may be."""


class Follower(Protocol):
    """Rates candidates for the prompts and views of some asks, again and again."""

    def rate(self, candidates: Candidates) -> dict[int, Rating]:
        """For each place a rating of its candidates, the same that a whole ask of them would get."""


@dataclass(frozen=True)
class FunctionFollower:
    """A follower from a function."""

    rate: Callable[[Candidates], dict[int, Rating]]


def follow(model: RewardModel, asks: Sequence[Ask], room: int = 0) -> Follower:
    """Follow the answers to these asks, each as long as its longest response and `room` tokens more."""
    own = getattr(model, "follow", None)
    with at_work(REWARD_MODEL, model.name), named_in_errors(model):
        follower: Follower | None = own(asks, room) if own is not None else None

    def rate_checked(candidates: Candidates) -> dict[int, Rating]:
        """By a follower of the model's own, which is trusted no more than its `rate` is."""
        assert follower is not None
        with at_work(REWARD_MODEL, model.name, len(candidates)), named_in_errors(model):
            ratings = follower.rate(candidates)
        return {place: sound(model, len(candidates[place]), rating) for place, rating in ratings.items()}

    def rate_from_scratch(candidates: Candidates) -> dict[int, Rating]:
        step = [
            msgspec.structs.replace(asks[place], responses=tuple(texts), shown=None)
            for place, texts in candidates.items()
        ]
        return dict(zip(candidates, rate(model, step), strict=True))

    return FunctionFollower(rate_from_scratch if follower is None else rate_checked)


def score_follower(score: Callable[[Candidates], Mapping[int, list[float] | Failure]]) -> Follower:
    """A follower from a function of scores; what fails is unscored."""

    def rate_scores(candidates: Candidates) -> dict[int, Rating]:
        return {
            place: Rating(unscored=scores.reason) if isinstance(scores, Failure) else Rating(scores)
            for place, scores in score(candidates).items()
        }

    return FunctionFollower(rate_scores)
