"""Incremental decoding and scoring: answers that grow token by token over a KV cache."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from torch import Tensor

from palate.engine._chat import Chat
from palate.engine._kv_cache import common_prefix
from palate.engine._language import Conversation, Failure, Likelihood
from palate.engine._local import too_long
from palate.engine._meter import count
from palate.engine._packing import Group
from palate.engine._reader import Reader, Rows, next_tokens
from palate.engine._sampler import Sampler

if TYPE_CHECKING:
    from palate.engine._local import LocalClassifier, LocalModel


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
        count(calls=len(conversations), prompt_tokens=sum(map(len, self._prompts)))
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
        """Some continuations of some of the answers, each of limited length."""
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
        count(completion_tokens=len(tokens))

    def length(self, place: int) -> int:
        """How many tokens the answer has so far."""
        return len(self.written[place])

    def text(self, place: int, more: Sequence[int] = ()) -> str:
        """The answer so far as text, with some tokens more; an end adds nothing to it."""
        return self._model.decoded([*self.written[place], *more])

    def ends(self, token: int) -> bool:
        """Whether this token ends the answer."""
        return token in self._model.ends


def follow_answers(reader: Reader, groups: Sequence[Group], top: int) -> list[list[Followed]]:
    """What the policy would have written at each place of given answers; the conversation is read once."""
    rows = {place: [[*group.prefix, *tokens] for tokens in group.continuations] for place, group in enumerate(groups)}
    texts = reader.begin(len(groups))
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


_MARKUP = re.compile(r"[<>\[\]{}|]")


def answered(chat: Chat, turns: Conversation, answers: Sequence[str]) -> list[str]:
    """What `Chat.answered` gives for each of the answers, which are much alike.

    Two of them are rendered. Where the template wrote both as they are, and with the same words around them, others
    are put there as well; unless they are empty or hold a special token, or could be stripped, or what they have for
    themselves could be markup that a template looks for.
    """
    shared = common_prefix(min(answers), max(answers))
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


class _IncrementalScorer:
    """Scores candidates for the answers to some conversations, again and again.

    The scores are those of `LocalClassifier.score` and `LocalModel.likelihood` for the same texts. What makes them
    cheap is that a conversation and the text so far are read once, and then only what each candidate adds.
    """

    def __init__(self, chat: Chat, context: int | None, reader: Reader, conversations: Sequence[Conversation]) -> None:
        self._chat = chat
        self._context = context
        self._reader = reader
        self._turns = conversations
        self._texts = reader.begin(len(conversations))

    def _read(self, places: Iterable[int], groups: Sequence[Group]) -> tuple[dict[int, Rows], dict[int, Failure]]:
        """The whole rows of tokens of each place, which are read, and the places whose rows are too long."""
        rows: dict[int, Rows] = {}
        failures: dict[int, Failure] = {}
        for place, group in zip(places, groups, strict=True):
            if failure := too_long(group, self._context):
                failures[place] = failure
            else:
                rows[place] = [[*group.prefix, *tokens] for tokens in group.continuations]
        read = {place: len(self._texts.ids[place]) for place in rows}
        self._reader.read(self._texts, rows)
        shared = {place: len(self._texts.ids[place]) for place in rows}
        new = sum(len(row) - shared[place] for place, own in rows.items() for row in own)
        count(prompt_tokens=new + sum(max(0, shared[place] - read[place]) for place in rows))
        return rows, failures


class IncrementalClassifier(_IncrementalScorer):
    """One logit for each candidate."""

    def __init__(self, model: LocalClassifier, reader: Reader, conversations: Sequence[Conversation]) -> None:
        super().__init__(model.chat, model.context, reader, conversations)
        self._model = model

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[float] | Failure]:
        """For some of the conversations, by their place, a number for each candidate."""
        chat = self._chat
        groups = chat.groups([answered(chat, self._turns[place], texts) for place, texts in candidates.items()])
        rows, failures = self._read(candidates, groups)
        last = [
            self._texts.where(place, number, len(row) - 1, len(row))[0]
            for place, own in rows.items()
            for number, row in enumerate(own)
        ]
        numbers = iter(self._model.logits(self._texts.states(last)) if last else [])
        return {**failures, **{place: [next(numbers) for _ in own] for place, own in rows.items()}}


class IncrementalLikelihood(_IncrementalScorer):
    """The log-probability of each candidate as the whole answer."""

    def __init__(self, model: LocalModel, reader: Reader, conversations: Sequence[Conversation]) -> None:
        super().__init__(model.chat, model.context, reader, conversations)
        self._model = model
        self._prompts = [model.chat.prompt(turns) for turns in conversations]
        self._shared: list[tuple[int, list[int], list[float]]] = [(0, [], []) for _ in conversations]
        """Of each text: where its answer begins, its tokens that all candidates had, and how likely each was."""

    def score(self, candidates: Mapping[int, Sequence[str]]) -> dict[int, list[Likelihood] | Failure]:
        """For some of the conversations, by their place, a likelihood for each candidate."""
        groups = self._model.tokens(
            [
                [self._prompts[place], *answered(self._chat, self._turns[place], texts)]
                for place, texts in candidates.items()
            ]
        )
        begins = {place: len(group.prefix) for place, group in zip(candidates, groups, strict=True)}
        rows, failures = self._read(candidates, groups)
        answers: dict[int, list[Likelihood] | Failure] = {**failures}
        for place, totals in self._totals(rows, begins).items():
            counts = [len(row) - begins[place] for row in rows[place]]
            answers[place] = [
                Likelihood(total=total, tokens=count) for total, count in zip(totals, counts, strict=True)
            ]
        return answers

    def _totals(self, rows: Mapping[int, Rows], begins: Mapping[int, int]) -> dict[int, list[float]]:
        """What all candidates share is added up from what is known; the rest goes through the head at once."""
        texts = self._texts
        asked: dict[int, list[int]] = {}
        """Of each state that is needed, the tokens that may follow: all candidates follow their last shared token."""
        wanted: list[list[tuple[int, int]]] = []
        for place, own in rows.items():
            begin, read = begins[place], len(texts.ids[place])
            known, ids, values = self._shared[place]
            shared = texts.ids[place][begin:]
            kept = common_prefix(ids, shared) if known == begin else 0
            self._shared[place] = (begin, shared, values[:kept])
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
            self._shared[place][2].extend(next(said))
            so_far = sum(self._shared[place][2])
            totals[place] = [so_far + sum(next(said)) for _ in own]
        return totals
