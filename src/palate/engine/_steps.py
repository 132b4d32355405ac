"""A policy that is led from outside: what it would write next, token by token, with everything read before kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from torch import Tensor

from palate.engine._language import Conversation, LikelihoodRequest
from palate.engine._reader import Reader, next_tokens
from palate.engine._sampler import Sampler

if TYPE_CHECKING:
    from palate.engine._local import LocalModel


@dataclass(frozen=True)
class Candidates:
    """The likeliest next tokens, likeliest first, with their log-probabilities over the whole vocabulary."""

    tokens: list[int]
    log_probabilities: list[float]


@dataclass(frozen=True)
class Chunk:
    """A few tokens that the policy drew, without the end token, and whether it ended there."""

    tokens: list[int]
    finished: bool
    log_probability: float
    """The sum over its tokens, the end included where it ended."""

    @property
    def said(self) -> int:
        """How many tokens that is."""
        return len(self.tokens) + self.finished


@dataclass(frozen=True)
class Followed:
    """A given answer under a policy: at each place its own token, and what the policy would rather have written."""

    tokens: list[int]
    """The end included."""
    log_probabilities: list[float]
    candidates: list[Candidates]


class Steps:
    """Some conversations that a policy answers while somebody else chooses among its next tokens."""

    def __init__(
        self, model: LocalModel, reader: Reader, sampler: Sampler, conversations: Sequence[Conversation]
    ) -> None:
        self._model = model
        self._sampler = sampler
        self._reader = reader
        self._prompts = [model.chat.ids(model.chat.prompt(turns)) for turns in conversations]
        self._texts = reader.begin(len(conversations))
        self.written: list[list[int]] = [[] for _ in conversations]
        """The tokens of each answer so far."""

    def next(self, places: Sequence[int], top: int) -> list[Candidates]:
        """The likeliest next tokens of some of the answers."""
        rows = {place: [[*self._prompts[place], *self.written[place]]] for place in places}
        self._reader.read(self._texts, rows)
        last = [self._texts.where(place, 0, len(row) - 1, len(row))[0] for place, [row] in rows.items()]
        found = next_tokens(self._reader.model, self._texts.states(last), top=top)
        return [Candidates(*pair) for pair in zip(found.top, found.of_top, strict=True)]

    def draw(
        self, places: Sequence[int], samples: int, tokens: int, temperature: float, seeds: Sequence[int]
    ) -> list[list[Chunk]]:
        """So many continuations of some of the answers, of at most so many tokens each."""
        before = [[*self._prompts[place], *self.written[place]] for place in places]
        drawn = self._sampler.sample(
            before,
            samples=samples,
            most_tokens=tokens,
            temperature=temperature,
            top_p=1.0,
            seeds=seeds,
            begun=self._held(places, before),
        )
        rows = {
            place: [[*start, *one.ids, *([] if one.end is None else [one.end])] for one in own]
            for place, start, own in zip(places, before, drawn, strict=True)
        }
        self._reader.read(self._texts, rows)
        where: list[int] = []
        said_of: list[list[int]] = []
        for (place, some), start in zip(rows.items(), before, strict=True):
            for number, row in enumerate(some):
                where += self._texts.where(place, number, len(start) - 1, len(row) - 1)
                said_of.append(row[len(start) :])
        states = self._texts.states(where)
        found = next_tokens(self._reader.model, states, [[token] for some in said_of for token in some])
        said = iter([value for [value] in found.own])
        totals = iter([sum(islice(said, len(some))) for some in said_of])
        return [[Chunk(one.ids, one.finished, next(totals)) for one in own] for own in drawn]

    def _held(self, places: Sequence[int], before: Sequence[list[int]]) -> list[Tensor] | None:
        """Keys and values of all tokens but the last, read where they were not; none where an end would be last."""
        if any(row[-1] in self._model.ends for row in before):
            return None
        self._reader.read(self._texts, {place: [row] for place, row in zip(places, before, strict=True)})
        return [self._texts.keys(place, 0, len(row) - 1) for place, row in zip(places, before, strict=True)]

    def take(self, place: int, tokens: Sequence[int]) -> None:
        """Go on with these tokens."""
        self.written[place] = [*self.written[place], *tokens]

    def length(self, place: int) -> int:
        """How many tokens the answer has so far."""
        return len(self.written[place])

    def text(self, place: int, more: Sequence[int] = ()) -> str:
        """The answer so far as text, with some tokens more; an end adds nothing to it."""
        return self._model.decoded([*self.written[place], *more])

    def ends(self, token: int) -> bool:
        """Whether this token ends the answer."""
        return token in self._model.ends


def follow_answers(
    model: LocalModel, reader: Reader, requests: Sequence[LikelihoodRequest], top: int
) -> list[list[Followed]]:
    """What the policy would have written at each place of given answers; the conversation is read once."""
    groups = [model.answers(request.turns, request.continuations) for request in requests]
    rows = {place: [[*group.prefix, *tokens] for tokens in group.continuations] for place, group in enumerate(groups)}
    texts = reader.begin(len(requests))
    reader.read(texts, rows)
    found = []
    for (place, some), group in zip(rows.items(), groups, strict=True):
        begin = len(group.prefix)
        answers = []
        for number, row in enumerate(some):
            states = texts.states(texts.where(place, number, begin - 1, len(row) - 1))
            at = next_tokens(reader.model, states, [[token] for token in row[begin:]], top=top)
            pairs = zip(at.top, at.of_top, strict=True)
            answers.append(Followed(row[begin:], [value for [value] in at.own], [Candidates(*pair) for pair in pairs]))
        found.append(answers)
    return found
