"""Generative judges: a language model compares pairs in both orders, or grades one response at a time.

Verdicts and grades are kept as the model wrote them, and can be read again without asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

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
from palate.rewards._prompts import ANSWER, WORDING, fit_view, grader_conversation, judge_conversation
from palate.rewards._verdict import read_verdict

OPENING = "[["
LETTERS = ("A", "B")
TOP = 9
DIGITS = tuple(str(digit) for digit in range(1, TOP + 1))
PLANNED = 5
"""Maximum number of aspects of a plan that are graded."""

Answer = TypeVar("Answer")
Judged = tuple[tuple[int, int], Chosen | str | Failure]
"""Which response stood as A and which as B, and what the judge answered."""


class _LanguageModelReward:
    def __init__(self, name: str, model: str, options: dict[str, str]) -> None:
        self.name = name
        self._model = open_language_model(model, **options)

    @property
    def fingerprint(self) -> str:
        """The model's, and the words in which it is asked."""
        return f"{self._model.fingerprint}-{WORDING}"

    def status(self) -> str:
        """Tokens and money, where a server is asked."""
        return self._model.status()

    def _room(self) -> int | None:
        return None if self._model.context is None else self._model.context - ANSWER

    def _longest(self, conversations: Sequence[Conversation]) -> int:
        return max((self._model.count_tokens(turns) or 0 for turns in conversations), default=0)


class _TextOrProbabilities(_LanguageModelReward):
    """Answers as probabilities of the next token, as text, or as text where an ask has no probabilities (`auto`)."""

    batch_size = 64

    def __init__(self, kind: str, model: str, option: str, how: str, tokens: str, options: dict[str, str]) -> None:
        if how not in ("auto", "probabilities", "text"):
            raise PalateError(f"option {option}={how}: it is probabilities, text or auto")
        if not tokens.isdigit() or not int(tokens):
            raise PalateError(f"option tokens={tokens}: expected a whole number from 1")
        super().__init__(f"{kind}:{model}" + (f",{option}=text" if how == "text" else ""), model, options)
        self._how = how
        self._sampling = Sampling(most_tokens=int(tokens))

    @property
    def fingerprint(self) -> str:
        """The model's, the words in which it is asked, and how answers are had."""
        return f"{super().fingerprint}-{self._how}-{self._sampling.most_tokens}"

    def _answers(
        self,
        conversations: Sequence[Conversation],
        owners: Sequence[int],
        choose: Callable[[Sequence[Conversation]], Sequence[Answer | Failure]],
    ) -> list[Answer | str | Failure]:
        """One for each conversation. With `auto`, all of an owner's are texts if one of its probabilities failed."""
        if self._how == "text":
            return [*self._texts(conversations)]
        answers: list[Answer | str | Failure] = [*choose(conversations)]
        if self._how == "auto":
            lost = {owner for owner, answer in zip(owners, answers, strict=True) if isinstance(answer, Failure)}
            again = [place for place, owner in enumerate(owners) if owner in lost]
            for place, text in zip(again, self._texts([conversations[place] for place in again]), strict=True):
                answers[place] = text
        return answers

    def _texts(self, conversations: Sequence[Conversation]) -> list[str | Failure]:
        if not conversations:
            return []
        requests = [WriteRequest(turns=turns, sampling=self._sampling) for turns in conversations]
        return [answer if isinstance(answer, Failure) else answer[0].text for answer in self._model.write(requests)]

    def _room(self) -> int | None:
        if self._how != "text" or self._model.context is None:
            return super()._room()
        return self._model.context - self._sampling.most_tokens


class JudgeReward(_TextOrProbabilities):
    """Every pair of responses is judged twice, each response once as A and once as B.

    With token probabilities a response's score is its mean probability of being preferred, over both
    orders. With text, two verdicts for the same response make it the winner, and two for the same letter
    (a flip) or a tie make neither. `verdict` is `probabilities`, `text` or `auto`, which takes
    probabilities where the engine has them for the whole ask, and else texts.
    """

    def __init__(self, model: str, *, verdict: str = "auto", tokens: str = "512", **options: str) -> None:
        super().__init__("judge", model, "verdict", verdict, tokens, options)

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Both orders of every pair of every ask in one call."""
        fitted = [fit_view(ask, self._tokens, self._room()) for ask in asks]
        pairs = [(index, pair) for index, (ask, _) in enumerate(fitted) for pair in _orders(len(ask.responses))]
        conversations = [judge_conversation(fitted[index][0], *pair) for index, pair in pairs]
        answers = self._answers(conversations, [index for index, _ in pairs], self._probabilities)
        grouped: list[list[Judged]] = [[] for _ in asks]
        for (index, pair), answer in zip(pairs, answers, strict=True):
            grouped[index].append((pair, answer))
        return [_judge_rating(len(ask.responses), own, note) for (ask, note), own in zip(fitted, grouped, strict=True)]

    def _probabilities(self, conversations: Sequence[Conversation]) -> list[Chosen | Failure]:
        requests = [ChooseRequest(turns=turns, choices=LETTERS, opening=OPENING) for turns in conversations]
        return self._model.choose(requests)

    def _tokens(self, ask: Ask) -> int:
        return self._longest([judge_conversation(ask, *pair) for pair in combinations(range(len(ask.responses)), 2)])


class GraderReward(_TextOrProbabilities):
    """A grade from 1 to 9: expected over the digits' probabilities, or read from text (`grade=text`)."""

    def __init__(self, model: str, *, grade: str = "auto", tokens: str = "256", **options: str) -> None:
        super().__init__("grader", model, "grade", grade, tokens, options)

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """One grade for each response."""
        fitted = [fit_view(ask, self._tokens, self._room()) for ask in asks]
        turns = [turns for ask, _ in fitted for turns in _grader_conversations(ask)]
        owners = [index for index, (ask, _) in enumerate(fitted) for _ in ask.responses]
        grades = iter(self._answers(turns, owners, lambda turns: _expected_grades(self._model, turns)))
        return [_grade_rating([next(grades) for _ in ask.responses], note) for ask, note in fitted]

    def _tokens(self, ask: Ask) -> int:
        return self._longest(_grader_conversations(ask))


class AspectsReward(_LanguageModelReward):
    """Grades each aspect of the rubric apart and takes the mean.

    The aspects are those that the view shows: the true ones under `oracle`, guessed ones under `plan`.
    A view that shows none is graded on the whole, and the rating says so.
    """

    batch_size = 32

    def __init__(self, model: str, **options: str) -> None:
        super().__init__(f"aspects:{model}", model, options)

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """One expected grade for each response and aspect."""
        fitted = [fit_view(ask, self._tokens, self._room()) for ask in asks]
        turns = [turns for ask, _ in fitted for turns in _grader_conversations(ask, _aspects(ask))]
        grades = iter(_expected_grades(self._model, turns))
        ratings = []
        for ask, note in fitted:
            aspects = _aspects(ask)
            by_response = [[next(grades) for _ in aspects] for _ in ask.responses]
            if aspects == [None] and ask.view.parts:
                whole = "graded on the whole: the view shows no aspects"
                note = f"{whole}; {note}" if note else whole
            ratings.append(_mean_rating(by_response, note))
        return ratings

    def _tokens(self, ask: Ask) -> int:
        return self._longest(_grader_conversations(ask, _aspects(ask)))


def read_again(rating: Rating) -> Rating:
    """The rating that today's readers give to a rating's raw text; others, and where a text is missing, as they are."""
    try:
        raw = msgspec.json.decode(rating.raw or "")
    except msgspec.DecodeError:
        return rating
    if not isinstance(raw, dict):
        return rating
    if "judge" in raw:
        texts, orders = raw["judge"], _orders(raw["responses"])
        if None in texts or len(texts) != len(orders):
            return rating
        answers = [(order, str(text)) for order, text in zip(orders, texts, strict=True)]
        return _judge_rating(raw["responses"], answers, rating.note)
    if "grader" in raw:
        texts = raw["grader"]
        if None in texts or (rating.scores is not None and len(texts) != len(rating.scores)):
            return rating
        return _grade_rating([str(text) for text in texts], rating.note)
    return rating


def own_words(raw: str) -> str:
    """A rating's raw text as a person reads it: what a judge or grader wrote, under what it was asked; others as is.

    >>> print(own_words('{"judge": ["A, since it is short.", "[[B]]"], "responses": 2}'))
    Text 1 as A, text 2 as B:
    A, since it is short.
    <BLANKLINE>
    Text 2 as A, text 1 as B:
    [[B]]
    """
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return raw
    match found:
        case {"judge": [*texts], "responses": int(count)} if len(texts) == len(orders := _orders(count)):
            heads = [f"Text {one + 1} as A, text {other + 1} as B:" for one, other in orders]
        case {"grader": [*texts]}:
            heads = [f"Text {place}:" for place in range(1, len(texts) + 1)]
        case _:
            return raw
    return "\n\n".join(f"{head}\n{text}" for head, text in zip(heads, texts, strict=True) if text is not None)


def _orders(count: int) -> list[tuple[int, int]]:
    return [order for one, other in combinations(range(count), 2) for order in ((one, other), (other, one))]


def _raw(answers: Sequence[object], kind: str, field: str, value: int) -> str | None:
    """The texts as they were written; None where none was."""
    texts = [answer if isinstance(answer, str) else None for answer in answers]
    return None if texts.count(None) == len(texts) else msgspec.json.encode({kind: texts, field: value}).decode()


def _judge_rating(count: int, answers: Sequence[Judged], note: str | None) -> Rating:
    """Mean share won over all pairs; unscored when any verdict of the ask could not be read."""
    raw = _raw([answer for _, answer in answers], "judge", "responses", count)
    if failures := [answer for _, answer in answers if isinstance(answer, Failure)]:
        return Rating(unscored=failures[0].reason, raw=raw)
    won, verdicts = [0.0] * count, []
    for (one, other), answer in answers:
        if isinstance(answer, Chosen):
            share = answer.probabilities[0]
            verdicts.append("A" if share > 0.5 else "B" if share < 0.5 else "tie")
        else:
            verdict = read_verdict(str(answer))
            if verdict is None:
                return Rating(unscored="a verdict could not be read", raw=raw)
            share = {"A": 1.0, "B": 0.0, "tie": 0.5}[verdict]
            verdicts.append(verdict)
        won[one] += share / (2 * max(1, count - 1))
        won[other] += (1 - share) / (2 * max(1, count - 1))
    probabilities = None if raw or count != 2 else won
    return Rating(won, probabilities=probabilities, raw=raw, note=note, verdicts=tuple(verdicts) or None)


def _grader_conversations(ask: Ask, aspects: Sequence[str | None] = (None,)) -> list[Conversation]:
    return [grader_conversation(ask, index, aspect) for index in range(len(ask.responses)) for aspect in aspects]


def _expected_grades(model: LanguageModel, conversations: Sequence[Conversation]) -> list[float | Failure]:
    """The mean of the digits 1 to 9 under the probability that the model gives them."""
    answers = model.choose([ChooseRequest(turns=turns, choices=DIGITS) for turns in conversations])
    return [
        answer
        if isinstance(answer, Failure)
        else sum(int(digit) * share for digit, share in zip(DIGITS, answer.probabilities, strict=True))
        for answer in answers
    ]


def _grade_rating(grades: Sequence[float | str | Failure], note: str | None) -> Rating:
    raw = _raw(grades, "grader", "top", TOP)
    if failures := [grade for grade in grades if isinstance(grade, Failure)]:
        return Rating(unscored=failures[0].reason, raw=raw)
    read = [read_grade(grade, TOP) if isinstance(grade, str) else grade for grade in grades]
    scores = [number for number in read if isinstance(number, float)]
    if len(scores) < len(read):
        return Rating(unscored="a grade could not be read", raw=raw)
    return Rating(scores, raw=raw, note=note)


def _aspects(ask: Ask) -> list[str | None]:
    """What to grade; nothing in particular where the view names nothing."""
    parts = (*ask.view.of_kind("aspect"), *ask.view.of_kind("plan"))
    named: list[str | None] = [part.words for part in parts]
    return named[:PLANNED] or [None]


def _mean_rating(by_response: Sequence[Sequence[float | Failure]], note: str | None) -> Rating:
    if failures := [grade for grades in by_response for grade in grades if isinstance(grade, Failure)]:
        return Rating(unscored=failures[0].reason)
    means = [sum(grade for grade in grades if not isinstance(grade, Failure)) / len(grades) for grades in by_response]
    return Rating(means, note=note)
