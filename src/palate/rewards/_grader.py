"""A generative judge of one response at a time, on the whole or aspect by aspect."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.engine import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LanguageModel,
    Sampling,
    WriteRequest,
    open_language_model,
)
from palate.records import Ask, PalateError, Rating
from palate.rewards._grade import read_grade
from palate.rewards._prompts import ANSWER, fit_view, grader_conversation

TOP = 9
DIGITS = tuple(str(digit) for digit in range(1, TOP + 1))
PLANNED = 5
"""At most so many aspects of a plan are graded."""


class GraderReward:
    """A grade from 1 to 9: expected over the digits' probabilities, or read from text (`grade=text`)."""

    batch_size = 64

    def __init__(self, model: str, *, grade: str = "auto", tokens: str = "256", **options: str) -> None:
        if grade not in ("auto", "probabilities", "text"):
            raise PalateError(f"option grade={grade}: it is probabilities, text or auto")
        if not tokens.isdigit() or not int(tokens):
            raise PalateError(f"option tokens={tokens}: expected a whole number from 1")
        self.name = f"grader:{model}" + (",grade=text" if grade == "text" else "")
        self._grade = grade
        self._sampling = Sampling(most_tokens=int(tokens))
        self._model = open_language_model(model, **options)

    @property
    def fingerprint(self) -> str:
        """The model's, and how grades are had."""
        return f"{self._model.fingerprint}-{self._grade}-{self._sampling.most_tokens}"

    def status(self) -> str:
        """Tokens and money, where a server is asked."""
        return self._model.status()

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """One grade for each response."""
        fitted = [fit_view(ask, self._tokens, self._room()) for ask in asks]
        asked = [(place, index) for place, (ask, _) in enumerate(fitted) for index in range(len(ask.responses))]
        turns = [grader_conversation(fitted[place][0], index) for place, index in asked]
        found: list[float | str | Failure]
        found = self._texts(turns) if self._grade == "text" else [*expected_grades(self._model, turns)]
        if self._grade == "auto":
            lost = {place for (place, _), grade in zip(asked, found, strict=True) if isinstance(grade, Failure)}
            again = [at for at, (place, _) in enumerate(asked) if place in lost]
            for at, text in zip(again, self._texts([turns[at] for at in again]), strict=True):
                found[at] = text
        grades = iter(found)
        return [_rating([next(grades) for _ in ask.responses], note) for ask, note in fitted]

    def _texts(self, conversations: Sequence[Conversation]) -> list[float | str | Failure]:
        if not conversations:
            return []
        requests = [WriteRequest(turns=turns, sampling=self._sampling) for turns in conversations]
        return [answer if isinstance(answer, Failure) else answer[0].text for answer in self._model.write(requests)]

    def _tokens(self, ask: Ask) -> int | None:
        counts = [self._model.count_tokens(grader_conversation(ask, i)) or 0 for i in range(len(ask.responses))]
        return max(counts, default=0)

    def _room(self) -> int | None:
        answer = self._sampling.most_tokens if self._grade == "text" else ANSWER
        return None if self._model.context is None else self._model.context - answer


def expected_grades(model: LanguageModel, conversations: Sequence[Conversation]) -> list[float | Failure]:
    """The mean of the digits 1 to 9 under the probability that the model gives them."""
    found = model.choose([ChooseRequest(turns=turns, choices=DIGITS) for turns in conversations])
    return [_expected(answer) for answer in found]


def _expected(answer: Chosen | Failure) -> float | Failure:
    if isinstance(answer, Failure):
        return answer
    return sum(int(digit) * share for digit, share in zip(DIGITS, answer.probabilities, strict=True))


def _rating(grades: Sequence[float | str | Failure], note: str | None) -> Rating:
    texts = [grade if isinstance(grade, str) else None for grade in grades]
    written = any(text is not None for text in texts)
    raw = msgspec.json.encode({"grader": texts, "top": TOP}).decode() if written else None
    if failures := [grade for grade in grades if isinstance(grade, Failure)]:
        return Rating(unscored=failures[0].reason, raw=raw)
    read = [read_grade(grade, TOP) if isinstance(grade, str) else grade for grade in grades]
    scores = [number for number in read if isinstance(number, float)]
    if len(scores) < len(read):
        return Rating(unscored="a grade could not be read", raw=raw)
    return Rating(scores, raw=raw, note=note)


def read_grader_again(raw: dict[str, object], kept: Rating) -> Rating:
    """The rating that today's reader gives to the texts of an earlier day; as it was, where one is missing."""
    texts = raw["grader"]
    assert isinstance(texts, list)
    if None in texts or (kept.scores is not None and len(texts) != len(kept.scores)):
        return kept
    return _rating([str(text) for text in texts], kept.note)


class AspectsReward:
    """Grades each aspect of the rubric apart and takes the mean.

    The aspects are those that the view shows: the true ones under `oracle`, guessed ones under `plan`.
    A view that shows none is graded on the whole, and the rating says so.
    """

    batch_size = 32

    def __init__(self, model: str, **options: str) -> None:
        self.name = f"aspects:{model}"
        self._model = open_language_model(model, **options)

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self._model.fingerprint

    def status(self) -> str:
        """Tokens and money, where a server is asked."""
        return self._model.status()

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """One expected grade for each response and aspect."""
        room = None if self._model.context is None else self._model.context - ANSWER
        fitted = [fit_view(ask, self._tokens, room) for ask in asks]
        aspects = [_aspects(ask) for ask, _ in fitted]
        turns = [
            grader_conversation(ask, index, aspect)
            for (ask, _), own in zip(fitted, aspects, strict=True)
            for index in range(len(ask.responses))
            for aspect in own
        ]
        grades = iter(expected_grades(self._model, turns))
        ratings = []
        for (ask, note), own in zip(fitted, aspects, strict=True):
            given = [[next(grades) for _ in own] for _ in ask.responses]
            if own == [None] and ask.view.parts:
                whole = "graded on the whole: the view shows no aspects"
                note = f"{whole}; {note}" if note else whole
            ratings.append(_mean_rating(given, note))
        return ratings

    def _tokens(self, ask: Ask) -> int | None:
        counts = [
            self._model.count_tokens(grader_conversation(ask, index, aspect)) or 0
            for index in range(len(ask.responses))
            for aspect in _aspects(ask)
        ]
        return max(counts, default=0)


def _aspects(ask: Ask) -> list[str | None]:
    """What to grade; nothing in particular where the view names nothing."""
    parts = (*ask.view.of_kind("aspect"), *ask.view.of_kind("plan"))
    named: list[str | None] = [part.words for part in parts]
    return named[:PLANNED] or [None]


def _mean_rating(given: Sequence[Sequence[float | Failure]], note: str | None) -> Rating:
    scores = []
    for grades in given:
        numbers = []
        for grade in grades:
            if isinstance(grade, Failure):
                return Rating(unscored=grade.reason)
            numbers.append(grade)
        scores.append(sum(numbers) / len(numbers))
    return Rating(scores, note=note)
