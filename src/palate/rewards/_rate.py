"""Calling somebody else's reward model without trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from palate.records import Ask, PalateError, Rating, RewardModel, describe_error


def rate(model: RewardModel, asks: Sequence[Ask]) -> list[Rating]:
    """One sound rating for each ask, or a clear error that names the model.

    Scores that are not finite numbers become *unscored*: they can be compared with nothing.
    """
    with named_in_errors(model):
        ratings = list(model.rate(asks))
    if len(ratings) != len(asks):
        raise PalateError(f"the reward model {model.name!r} gave {len(ratings)} ratings for {len(asks)} asks")
    return [sound(model, len(ask.responses), rating) for ask, rating in zip(asks, ratings, strict=True)]


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
            "the same command goes on from there, unless the model itself has changed."
        ) from error


def sound(model: RewardModel, responses: int, rating: Rating) -> Rating:
    """The rating of so many responses if it can be used, *unscored* if its numbers are not finite."""
    if not isinstance(rating, Rating):
        raise PalateError(
            f"the reward model {model.name!r} gave a {type(rating).__name__} where a palate.Rating is needed"
        )
    for field, numbers in (("scores", rating.scores), ("probabilities", rating.probabilities)):
        if numbers is None:
            continue
        if len(numbers) != responses:
            raise PalateError(f"the reward model {model.name!r} gave {len(numbers)} {field} for {responses} responses")
        if not all(math.isfinite(number) for number in numbers):
            shown = ", ".join(str(number) for number in numbers)
            return msgspec.structs.replace(
                rating, scores=None, probabilities=None, unscored=f"{field} are not finite numbers: {shown}"
            )
    if rating.probabilities is not None and not math.isclose(sum(rating.probabilities), 1, abs_tol=1e-3):
        raise PalateError(
            f"the reward model {model.name!r} gave probabilities that do not add up to 1: {rating.probabilities}"
        )
    return _encodable(rating)


def _encodable(rating: Rating) -> Rating:
    """A model's own words may hold half a character; a file of UTF-8 cannot."""
    words = {field: getattr(rating, field) for field in ("unscored", "raw", "note")}
    broken = {
        field: text.encode("utf-8", "replace").decode()
        for field, text in words.items()
        if text and any("\ud800" <= character <= "\udfff" for character in text)
    }
    return msgspec.structs.replace(rating, **broken) if broken else rating
