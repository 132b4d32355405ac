"""Scores of texts while they are being written: what a classifier or a language model says of each way to go on.

The answers are those of `LocalClassifier.score` and `LocalModel.likelihood` for the same texts. What makes them cheap
is that a conversation and the text so far are read once, and then only what each candidate adds (see `_reader.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import torch

from palate.engine._chat import common
from palate.engine._language import Conversation, Failure, Likelihood, LikelihoodRequest
from palate.engine._reader import Reader, Reading, next_tokens

if TYPE_CHECKING:
    from palate.engine._local import LocalClassifier, LocalModel


class ClassifierFollower:
    """One logit for each candidate of each of some conversations, again and again."""

    def __init__(self, model: LocalClassifier, reader: Reader, conversations: Sequence[Conversation]) -> None:
        self._model = model
        self._reader = reader
        self._turns = conversations
        self._texts = [reader.begin() for _ in conversations]

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[float] | Failure]:
        """For some of the conversations, by their place, a number for each candidate."""
        answers: dict[int, list[float] | Failure] = {}
        rows: dict[int, list[list[int]]] = {}
        for place, texts in candidates.items():
            group = self._model.group(LikelihoodRequest(turns=self._turns[place], continuations=tuple(texts)))
            rows[place] = [[*group.prefix, *tokens] for tokens in group.continuations]
        for place, failure in _too_long(rows, self._model.context).items():
            answers[place] = failure
            del rows[place]
        readings = self._reader.read([self._texts[place] for place in rows], list(rows.values()))
        last = [states[-1] for reading in readings for states in reading.states]
        numbers = iter(self._model.logits(torch.stack(last)) if last else [])
        for place, own in rows.items():
            answers[place] = [next(numbers) for _ in own]
        return answers


class LikelihoodFollower:
    """The log-probability of each candidate as the whole answer, again and again."""

    def __init__(self, model: LocalModel, reader: Reader, conversations: Sequence[Conversation]) -> None:
        self._model = model
        self._reader = reader
        self._turns = conversations
        self._texts = [reader.begin() for _ in conversations]
        self._said: list[tuple[int, list[int], list[float]]] = [(0, [], []) for _ in conversations]
        """Of each text: where its answer begins, its tokens that all candidates had, and how likely each was."""

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[Likelihood] | Failure]:
        """For some of the conversations, by their place, a likelihood for each candidate."""
        answers: dict[int, list[Likelihood] | Failure] = {}
        rows: dict[int, list[list[int]]] = {}
        begins: dict[int, int] = {}
        for place, texts in candidates.items():
            group = self._model.answers(self._turns[place], texts)
            rows[place] = [[*group.prefix, *tokens] for tokens in group.continuations]
            begins[place] = len(group.prefix)
        for place, failure in _too_long(rows, self._model.context).items():
            answers[place] = failure
            del rows[place]
        readings = self._reader.read([self._texts[place] for place in rows], list(rows.values()))
        for place, totals in self._totals(rows, begins, readings).items():
            counts = [len(row) - begins[place] for row in rows[place]]
            answers[place] = [
                Likelihood(total=total, tokens=count) for total, count in zip(totals, counts, strict=True)
            ]
        return answers

    def _totals(
        self, rows: Mapping[int, list[list[int]]], begins: Mapping[int, int], readings: Sequence[Reading]
    ) -> dict[int, list[float]]:
        """What all candidates share is added up from what is known; the rest goes through the head at once."""
        states, tokens = [], []
        for (place, own), reading in zip(rows.items(), readings, strict=True):
            begin, text = begins[place], self._texts[place]
            known, ids, values = self._said[place]
            shared = text.ids[begin:]
            same = common([ids, shared]) if known == begin else 0
            self._said[place] = (begin, shared, values[:same])
            states.append(text.states[begin + same - 1 : len(text.ids) - 1] if shared[same:] else text.states[:0])
            tokens.append(shared[same:])
            for row, read in zip(own, reading.states, strict=True):
                skip = max(0, begin - reading.start)
                states.append(read[skip:-1])
                tokens.append(row[reading.start + skip :])
        if not states:
            return {}
        flat = next_tokens(self._reader.model, torch.cat(states), [token for some in tokens for token in some]).own
        pieces = iter([flat[start:end] for start, end in pairwise([0, *accumulate(len(some) for some in tokens)])])
        totals: dict[int, list[float]] = {}
        for place, own in rows.items():
            self._said[place][2].extend(next(pieces))
            before = sum(self._said[place][2])
            totals[place] = [before + sum(next(pieces)) for _ in own]
        return totals


def _too_long(rows: Mapping[int, Sequence[Sequence[int]]], context: int | None) -> dict[int, Failure]:
    longest = {place: max(map(len, own)) for place, own in rows.items()}
    return {
        place: Failure(f"needs {length} tokens, and the model's context has {context}")
        for place, length in longest.items()
        if context is not None and length > context
    }
