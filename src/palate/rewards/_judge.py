"""A generative judge of pairs, asked in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec

from palate.engine import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    Sampling,
    WriteRequest,
    Written,
    open_language_model,
)
from palate.records import Ask, PalateError, Rating
from palate.rewards._prompts import ANSWER, fit_view, judge_conversation
from palate.rewards._verdict import read_verdict

OPENING = "[["
LETTERS = ("A", "B")


class JudgeReward:
    """Every pair of responses is judged twice, each response once as A and once as B.

    With token probabilities a response's score is its mean probability of being preferred, over both
    orders. With text, two verdicts for the same response make it the winner, and two for the same letter
    (a flip) or a tie make neither. `verdict` is `probabilities`, `text` or `auto`, which takes
    probabilities where the engine has them for the whole ask, and else texts.
    """

    batch_size = 64

    def __init__(self, model: str, *, verdict: str = "auto", tokens: str = "512", **options: str) -> None:
        if verdict not in ("auto", "probabilities", "text"):
            raise PalateError(f"option verdict={verdict}: it is probabilities, text or auto")
        if not tokens.isdigit() or not int(tokens):
            raise PalateError(f"option tokens={tokens}: expected a whole number from 1")
        self.name = f"judge:{model}" + (",verdict=text" if verdict == "text" else "")
        self._verdict = verdict
        self._sampling = Sampling(most_tokens=int(tokens))
        self._model = open_language_model(model, **options)

    @property
    def fingerprint(self) -> str:
        """The model's, and how verdicts are had."""
        return f"{self._model.fingerprint}-{self._verdict}-{self._sampling.most_tokens}"

    def status(self) -> str:
        """Tokens and money, where a server is asked."""
        return self._model.status()

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """Both orders of every pair of every ask in one call."""
        fitted = [fit_view(ask, self._tokens, self._room()) for ask in asks]
        asked = [(index, pair) for index, (ask, _) in enumerate(fitted) for pair in _orders(len(ask.responses))]
        conversations = [judge_conversation(fitted[index][0], *pair) for index, pair in asked]
        answers = self._texts(conversations) if self._verdict == "text" else self._probabilities(conversations)
        if self._verdict == "auto":
            lost = {index for (index, _), answer in zip(asked, answers, strict=True) if isinstance(answer, Failure)}
            places = [place for place, (index, _) in enumerate(asked) if index in lost]
            for place, text in zip(places, self._texts([conversations[place] for place in places]), strict=True):
                answers[place] = text
        grouped: list[list[Judged]] = [[] for _ in asks]
        for (index, pair), answer in zip(asked, answers, strict=True):
            grouped[index].append((pair, answer))
        return [_rating(len(ask.responses), own, note) for (ask, note), own in zip(fitted, grouped, strict=True)]

    def _probabilities(self, conversations: Sequence[Conversation]) -> list[Chosen | str | Failure]:
        requests = [ChooseRequest(turns=turns, choices=LETTERS, opening=OPENING) for turns in conversations]
        return list(self._model.choose(requests))

    def _texts(self, conversations: Sequence[Conversation]) -> list[Chosen | str | Failure]:
        if not conversations:
            return []
        requests = [WriteRequest(turns=turns, sampling=self._sampling) for turns in conversations]
        return [answer if isinstance(answer, Failure) else _text(answer) for answer in self._model.write(requests)]

    def _tokens(self, ask: Ask) -> int | None:
        pairs = combinations(range(len(ask.responses)), 2)
        return max((self._model.count_tokens(judge_conversation(ask, *pair)) or 0 for pair in pairs), default=0)

    def _room(self) -> int | None:
        answer = self._sampling.most_tokens if self._verdict == "text" else ANSWER
        return None if self._model.context is None else self._model.context - answer


def _orders(count: int) -> list[tuple[int, int]]:
    return [order for one, other in combinations(range(count), 2) for order in ((one, other), (other, one))]


Judged = tuple[tuple[int, int], Chosen | str | Failure]
"""Which response stood as A and which as B, and what the judge said."""


def _text(written: list[Written]) -> str:
    return written[0].text


def _rating(count: int, answers: Sequence[Judged], note: str | None) -> Rating:
    """Mean share won over all pairs; unscored when any verdict of the ask could not be read."""
    texts = [answer if isinstance(answer, str) else None for _, answer in answers]
    written = any(text is not None for text in texts)
    raw = msgspec.json.encode({"judge": texts, "responses": count}).decode() if written else None
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
    probabilities = None if written or count != 2 else won
    return Rating(won, probabilities=probabilities, raw=raw, note=note, verdicts=tuple(verdicts) or None)


def read_judge_again(raw: dict[str, object], kept: Rating) -> Rating:
    """The rating that today's reader gives to the texts of an earlier day; as it was, where one is missing."""
    texts, count = raw["judge"], raw["responses"]
    assert isinstance(texts, list) and isinstance(count, int)
    orders = _orders(count)
    if None in texts or len(texts) != len(orders):
        return kept
    return _rating(count, [(order, str(text)) for order, text in zip(orders, texts, strict=True)], kept.note)
