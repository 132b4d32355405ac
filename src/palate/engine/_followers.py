"""Scores of texts while they are being written: what a classifier or a language model says of each way to go on.

The answers are those of `LocalClassifier.score` and `LocalModel.likelihood` for the same texts. What makes them cheap
is that a conversation and the text so far are read once, and then only what each candidate adds (see `_reader.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from palate.engine._chat import Chat
from palate.engine._growing import same
from palate.engine._language import Conversation, Failure, Likelihood
from palate.engine._loaded import too_long
from palate.engine._packing import Group
from palate.engine._reader import Reader, next_tokens

if TYPE_CHECKING:
    from palate.engine._local import LocalModel
    from palate.engine._local_classifier import LocalClassifier


_MARKUP = re.compile(r"[<>\[\]{}|]")


def answered(chat: Chat, turns: Conversation, answers: Sequence[str]) -> list[str]:
    """What `Chat.answered` gives for each of the answers, which are much alike.

    Two of them are rendered. Where the template wrote both as they are, and with the same words around them, others
    are put there as well; unless they are empty or hold a special token, or could be stripped, or what they have for
    themselves could be markup that a template looks for.
    """
    shared = same(min(answers), max(answers))
    plain = [
        text for text in dict.fromkeys(answers) if text and text == text.strip() and not _MARKUP.search(text, shared)
    ]
    if len(plain) > 2:
        one, other = plain[0], plain[-1]
        rendered = chat.answered(turns, one)
        before, _, after = rendered.partition(one)
        if rendered.count(one) == 1 and chat.answered(turns, other) == before + other + after:
            alike = {text for text in plain if chat._harmless(text) == text}
            return [before + text + after if text in alike else chat.answered(turns, text) for text in answers]
    return [chat.answered(turns, text) for text in answers]


class ClassifierFollower:
    """One logit for each candidate of each of some conversations, again and again."""

    def __init__(self, model: LocalClassifier, reader: Reader, conversations: Sequence[Conversation]) -> None:
        self._model = model
        self._reader = reader
        self._turns = conversations
        self._texts = reader.begin(len(conversations))

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[float] | Failure]:
        """For some of the conversations, by their place, a number for each candidate."""
        answers: dict[int, list[float] | Failure] = {}
        chat = self._model.chat
        groups = chat.groups([answered(chat, self._turns[place], texts) for place, texts in candidates.items()])
        rows = _rows(candidates, groups)
        for place, group in zip(candidates, groups, strict=True):
            if failure := too_long(group, self._model.context):
                answers[place] = failure
                del rows[place]
        self._reader.read(self._texts, rows)
        last = [
            self._texts.where(place, number, len(row) - 1, len(row))[0]
            for place, own in rows.items()
            for number, row in enumerate(own)
        ]
        numbers = iter(self._model.logits(self._texts.states(last)) if last else [])
        for place, own in rows.items():
            answers[place] = [next(numbers) for _ in own]
        return answers


class LikelihoodFollower:
    """The log-probability of each candidate as the whole answer, again and again."""

    def __init__(self, model: LocalModel, reader: Reader, conversations: Sequence[Conversation]) -> None:
        self._model = model
        self._reader = reader
        self._turns = conversations
        self._prompts = [model.chat.prompt(turns) for turns in conversations]
        self._texts = reader.begin(len(conversations))
        self._said: list[tuple[int, list[int], list[float]]] = [(0, [], []) for _ in conversations]
        """Of each text: where its answer begins, its tokens that all candidates had, and how likely each was."""

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[Likelihood] | Failure]:
        """For some of the conversations, by their place, a likelihood for each candidate."""
        answers: dict[int, list[Likelihood] | Failure] = {}
        groups = self._model.tokens(
            [
                [self._prompts[place], *answered(self._model.chat, self._turns[place], texts)]
                for place, texts in candidates.items()
            ]
        )
        rows = _rows(candidates, groups)
        begins = {place: len(group.prefix) for place, group in zip(candidates, groups, strict=True)}
        for place, group in zip(candidates, groups, strict=True):
            if failure := too_long(group, self._model.context):
                answers[place] = failure
                del rows[place]
        self._reader.read(self._texts, rows)
        for place, totals in self._totals(rows, begins).items():
            counts = [len(row) - begins[place] for row in rows[place]]
            answers[place] = [
                Likelihood(total=total, tokens=count) for total, count in zip(totals, counts, strict=True)
            ]
        return answers

    def _totals(self, rows: Mapping[int, list[list[int]]], begins: Mapping[int, int]) -> dict[int, list[float]]:
        """What all candidates share is added up from what is known; the rest goes through the head at once."""
        texts = self._texts
        asked: dict[int, list[int]] = {}
        """Of each state that is needed, the tokens that may follow: all candidates follow their last shared token."""
        wanted: list[list[tuple[int, int]]] = []
        for place, own in rows.items():
            begin, read = begins[place], len(texts.ids[place])
            known, ids, values = self._said[place]
            shared = texts.ids[place][begin:]
            kept = same(ids, shared) if known == begin else 0
            self._said[place] = (begin, shared, values[:kept])
            spans = [(0, begin + kept, texts.ids[place]), *((at, max(begin, read), row) for at, row in enumerate(own))]
            for number, start, row in spans:
                where = texts.where(place, number, start - 1, len(row) - 1) if start < len(row) else []
                wanted.append([])
                for state, token in zip(where, row[start:], strict=True):
                    asked.setdefault(state, []).append(token)
                    wanted[-1].append((state, len(asked[state]) - 1))
        own_values = next_tokens(self._reader.model, texts.states(list(asked)), list(asked.values())).own
        found = dict(zip(asked, own_values, strict=True))
        said = iter([[found[state][at] for state, at in some] for some in wanted])
        totals: dict[int, list[float]] = {}
        for place, own in rows.items():
            self._said[place][2].extend(next(said))
            so_far = sum(self._said[place][2])
            totals[place] = [so_far + sum(next(said)) for _ in own]
        return totals


def _rows(places: Iterable[int], groups: Sequence[Group]) -> dict[int, list[list[int]]]:
    """The whole rows of tokens of each place."""
    return {
        place: [[*group.prefix, *tokens] for tokens in group.continuations]
        for place, group in zip(places, groups, strict=True)
    }
