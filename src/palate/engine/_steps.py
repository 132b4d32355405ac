"""A policy that is led from outside: what it would write next, token by token, with everything read before kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from palate.engine._language import Conversation, LikelihoodRequest
from palate.engine._reader import Reader, Text, next_tokens
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
        self._texts = [reader.begin() for _ in conversations]
        self.written: list[list[int]] = [[] for _ in conversations]
        """The tokens of each answer so far."""

    def next(self, places: Sequence[int], top: int) -> list[Candidates]:
        """The likeliest next tokens of some of the answers."""
        readings = self._reader.read(
            [self._texts[place] for place in places],
            [[[*self._prompts[place], *self.written[place]]] for place in places],
        )
        found = next_tokens(self._reader.model, torch.stack([reading.states[0][-1] for reading in readings]), top=top)
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
        rows = [
            [[*start, *one.ids, *([] if one.end is None else [one.end])] for one in own]
            for start, own in zip(before, drawn, strict=True)
        ]
        readings = self._reader.read([self._texts[place] for place in places], rows)
        states: list[Tensor] = []
        said_of: list[list[int]] = []
        for place, start, some, reading in zip(places, before, rows, readings, strict=True):
            for row, read in zip(some, reading.states, strict=True):
                states.append(_states(self._texts[place], read)[len(start) - 1 : len(row) - 1])
                said_of.append(row[len(start) :])
        said = iter(next_tokens(self._reader.model, torch.cat(states), list(chain.from_iterable(said_of))).own)
        totals = iter([sum(islice(said, len(some))) for some in said_of])
        return [[Chunk(one.ids, one.finished, next(totals)) for one in own] for own in drawn]

    def _held(self, places: Sequence[int], before: Sequence[list[int]]) -> list[Tensor] | None:
        """Keys and values of all tokens but the last, read where they were not; none where an end would be last."""
        if any(row[-1] in self._model.ends for row in before):
            return None
        texts = [self._texts[place] for place in places]
        self._reader.read(texts, [[row] for row in before])
        return [torch.cat([text.held, text.tips[0].held[..., :-1, :]], dim=-2) for text in texts]

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
    rows = [[[*group.prefix, *tokens] for tokens in group.continuations] for group in groups]
    texts = [reader.begin() for _ in requests]
    found = []
    for group, some, text, reading in zip(groups, rows, texts, reader.read(texts, rows), strict=True):
        begin = len(group.prefix)
        answers = []
        for row, states in zip(some, reading.states, strict=True):
            at = next_tokens(reader.model, _states(text, states)[begin - 1 : len(row) - 1], row[begin:], top=top)
            pairs = zip(at.top, at.of_top, strict=True)
            answers.append(Followed(row[begin:], at.own, [Candidates(*pair) for pair in pairs]))
        found.append(answers)
    return found


def _states(text: Text, own: Tensor) -> Tensor:
    """The states of a whole row: what it shares with others, then its own from the last shared token on."""
    return torch.cat([text.states[:-1], own])
