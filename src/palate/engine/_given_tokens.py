"""What servers tell of texts that they are given as tokens: how likely each token is, or a classifier's logits.

The chat template is applied here, with the served model's own tokenizer, so that a server reads the same tokens as
the model would in this process. What comes back is checked to be about these tokens.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palate.engine._costs import Bound
from palate.engine._http_client import Address, LostError, RefusedError, Sender, Session
from palate.engine._language import (
    Answers,
    Conversation,
    Failure,
    Likelihood,
    LikelihoodRequest,
    OnAnswer,
    Turn,
)
from palate.records import PalateError

if TYPE_CHECKING:
    from palate.engine._chat import Chat
    from palate.engine._packing import Group

Tokens = list[int]
Body = dict[str, object]

PROBE = (Turn("user", "Good morning. What shall I drink?"),)
PROBE_ANSWER = "A pot of green tea."


@dataclass(frozen=True)
class Way:
    """One way to ask a server for the log-probabilities of tokens that it is given."""

    name: str
    path: str
    """After the server's root."""
    body: Callable[[str, Tokens, int], Body]
    """Of the model's name, all tokens, and the place of the first whose log-probability is wanted."""
    read: Callable[[object, Tokens, int, Chat], list[float]]
    """Those log-probabilities; raises `RefusedError` where they are missing or not about these tokens."""


def _prompt_logprobs_body(model: str, ids: Tokens, start: int) -> Body:
    return {"model": model, "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1}


def _read_prompt_logprobs(reply: object, ids: Tokens, start: int, chat: Chat) -> list[float]:
    places = _first_choice(reply).get("prompt_logprobs")
    if not isinstance(places, list):
        raise RefusedError("the reply has no prompt_logprobs")
    _expect(len(places), ids)
    found = []
    for token, place in zip(ids[start:], places[start:], strict=True):
        own = place.get(str(token)) if isinstance(place, Mapping) else None
        if not isinstance(own, Mapping):
            raise _other_tokens()
        found.append(_log_probability(own.get("logprob")))
    return found


def _generate_body(model: str, ids: Tokens, start: int) -> Body:
    sampling = {"max_new_tokens": 0, "temperature": 0}
    return {"input_ids": ids, "sampling_params": sampling, "return_logprob": True, "logprob_start_len": start - 1}


def _read_generate(reply: object, ids: Tokens, start: int, chat: Chat) -> list[float]:
    about = reply.get("meta_info") if isinstance(reply, Mapping) else None
    entries = about.get("input_token_logprobs") if isinstance(about, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, list) and len(entry) >= 2 for entry in entries):
        raise RefusedError("the reply has no input_token_logprobs")
    own = entries[-len(ids[start:]) :]
    if [entry[1] for entry in own] != ids[start:]:
        raise _other_tokens()
    return [_log_probability(entry[0]) for entry in own]


def _echo_body(model: str, ids: Tokens, start: int) -> Body:
    return {"model": model, "prompt": ids, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}


def _read_echo(reply: object, ids: Tokens, start: int, chat: Chat) -> list[float]:
    logprobs = _first_choice(reply).get("logprobs")
    numbers = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
    texts = logprobs.get("tokens") if isinstance(logprobs, Mapping) else None
    if not isinstance(numbers, list) or not isinstance(texts, list) or len(numbers) != len(texts):
        raise RefusedError("the reply has no token_logprobs of the prompt")
    if len(numbers) != len(ids) + 1:  # one more is written
        _expect(len(numbers), ids)
    for token, text in zip(ids[start:], texts[start : len(ids)], strict=True):
        if not _same_text(chat.tokenizer.decode([token]), text):
            raise _other_tokens()
    return [_log_probability(number) for number in numbers[start : len(ids)]]


WAYS = (
    Way("prompt_logprobs of /v1/completions", "/v1/completions", _prompt_logprobs_body, _read_prompt_logprobs),
    Way("/generate", "/generate", _generate_body, _read_generate),
    Way("echo of /v1/completions", "/v1/completions", _echo_body, _read_echo),
)
"""vLLM's; SGLang's, which reads a profile once for many texts; and what OpenAI's servers once did."""


class TokenLikelihoods:
    """Asks one server how likely answers are, by the first way that it knows."""

    def __init__(self, model: str, sender: Sender, chat: Chat) -> None:
        self._model = model
        self._sender = sender
        self._chat = chat
        self._way: Way | None = None

    def likelihood(
        self, requests: Sequence[LikelihoodRequest], on_answer: OnAnswer[list[Likelihood]]
    ) -> Answers[list[Likelihood]]:
        """Of each continuation as the whole answer. What begins alike is sent together: a server that keeps what
        it has read, keeps it for a while only."""
        if not requests:
            return []
        way = self._way = self._way or self._learn()
        groups = [self._chat.whole_answers(request.turns, request.continuations) for request in requests]
        order = sorted(range(len(groups)), key=lambda index: list(groups[index].prefix))

        async def ask(session: Session, index: int) -> list[Likelihood] | Failure:
            prefix, found = list(groups[index].prefix), []
            try:
                for continuation in groups[index].continuations:  # one by one: the first is read, and then kept
                    ids = [*prefix, *continuation]
                    numbers = await self._ask(session, way, ids, len(prefix)) if continuation else []
                    found.append(Likelihood(total=math.fsum(numbers), tokens=len(continuation)))
            except (RefusedError, LostError) as problem:
                return Failure(problem.reason)
            return found

        def heard(place: int, answer: list[Likelihood] | Failure) -> None:
            if on_answer is not None:
                on_answer(order[place], answer)

        answers = dict(zip(order, self._sender.run(order, ask, heard), strict=True))
        return [answers[index] for index in range(len(requests))]

    async def _ask(self, session: Session, way: Way, ids: Tokens, start: int, *, optional: bool = False) -> list[float]:
        url = root(self._sender.address) + way.path
        return await session.post(
            url,
            way.body(self._model, ids, start),
            lambda reply: way.read(reply, ids, start, self._chat),
            Bound(len(ids), 1),
            optional=optional,
        )

    def _learn(self) -> Way:
        """The first way that the server knows, found out with a short text."""
        group = self._chat.whole_answers(PROBE, (PROBE_ANSWER,))
        ids, start = [*group.prefix, *group.continuations[0]], len(group.prefix)
        refusals = []

        async def attempt(session: Session, way: Way) -> bool:
            try:
                await self._ask(session, way, ids, start, optional=True)
            except (RefusedError, LostError) as problem:
                refusals.append(f"{way.name}: {problem.reason}")
                return False
            return True

        for way in WAYS:
            if self._sender.run([way], attempt) == [True]:
                return way
        raise PalateError(
            f"the server at {self._sender.address.url} does not tell how likely a given text is ({'; '.join(refusals)})"
            ". vLLM and SGLang do, llama.cpp does not: serve the model there, or run it here, without url="
        )


class RemoteClassifier:
    """A sequence classifier behind vLLM's `/classify` or `/pooling`: one logit for each answer."""

    context: int | None = None

    def __init__(self, name: str, *, base_url: str, key_variable: str, chat: Chat, label: int | None = None) -> None:
        self.name = name
        self.chat = chat
        if not chat.templated:
            raise PalateError(
                f"{name}: its tokenizer has no chat template, so that nobody can tell how the server's model wants a "
                "conversation and an answer written; run it here, without url="
            )
        address = Address(base_url, key_variable, needs_key=True)
        address.headers()
        not_found = f"Is the model name {name!r} right, and was the server started with --runner pooling?"
        self._sender = Sender(address, concurrency=32, timeout=120, not_found=not_found)
        self._asked_label = label
        self._label = label or 0
        self._path: str | None = None

    @property
    def fingerprint(self) -> str:
        """The server's address, the model's name, its tokenizer and the logit: no server tells its weights."""
        known = [self._sender.address.url, self.name, tokenizer_fingerprint(self.chat), self._label]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def group(self, request: LikelihoodRequest) -> Group:
        """The tokens of the answered conversations, split where they part."""
        return self.chat.answers(request.turns, request.continuations)

    def count_tokens(self, request: LikelihoodRequest) -> int:
        """The length of the longest of the answered conversations."""
        group = self.group(request)
        return len(group.prefix) + max(map(len, group.continuations), default=0)

    def too_long(self, group: Group) -> Failure | None:
        """Only the server knows."""
        return None

    def follow(self, conversations: Sequence[Conversation]) -> None:
        """A server does not go on with what it has read."""
        return

    def score_groups(self, groups: Sequence[Group]) -> list[list[float] | Failure]:
        """One number for each continuation of each group. What begins alike is sent together."""
        if not groups:
            return []
        path = self._path = self._path or self._learn()
        order = sorted(range(len(groups)), key=lambda index: list(groups[index].prefix))

        async def ask(session: Session, index: int) -> list[float] | Failure:
            prefix, found = list(groups[index].prefix), []
            try:
                for continuation in groups[index].continuations:
                    logits = await self._ask(session, path, [*prefix, *continuation])
                    found.append(logits[self._label])
            except (RefusedError, LostError) as problem:
                return Failure(problem.reason)
            return found

        answers = dict(zip(order, self._sender.run(order, ask), strict=True))
        return [answers[index] for index in range(len(groups))]

    async def _ask(
        self, session: Session, path: str, ids: Tokens, *, activation: bool = False, optional: bool = False
    ) -> list[float]:
        body: Body = {"model": self.name, "input": ids, "use_activation": activation}
        if path == "/pooling":
            body["task"] = "classify"
        url = root(self._sender.address) + path
        return await session.post(
            url, body, lambda reply: _read_logits(reply, ids), Bound(len(ids), 0), optional=optional
        )

    def _learn(self) -> str:
        """Where the server tells logits. They are asked for with and without what makes probabilities of them: a
        server that does not know the difference would tell one for the other."""
        group = self.group(LikelihoodRequest(turns=PROBE, continuations=(PROBE_ANSWER,)))
        ids, refusals = [*group.prefix, *group.continuations[0]], list[str]()

        async def attempt(session: Session, path: str) -> int | None:
            try:
                logits = await self._ask(session, path, ids, optional=True)
                probabilities = await self._ask(session, path, ids, activation=True, optional=True)
            except (RefusedError, LostError) as problem:
                refusals.append(f"{path}: {problem.reason}")
                return None
            if max(abs(a - b) for a, b in zip(logits, probabilities, strict=True)) < 1e-6:
                refusals.append(f"{path}: use_activation changes nothing, so these may be no logits")
                return None
            return len(logits)

        for path in ("/classify", "/pooling"):
            [labels] = self._sender.run([path], attempt)
            if labels is not None:
                self._check_label(labels)
                return path
        raise PalateError(
            f"the server at {self._sender.address.url} tells no logits of {self.name!r} ({'; '.join(refusals)}). "
            "vLLM does where it serves a sequence classifier (--runner pooling); or run it here, without url="
        )

    def _check_label(self, labels: int) -> None:
        if self._asked_label is None and labels != 1:
            raise PalateError(f"{self.name} gives {labels} logits; say which one is the reward: index=0")
        if self._label >= labels:
            raise PalateError(f"{self.name} gives {labels} logits; index={self._label} is not among them")


def _read_logits(reply: object, ids: Tokens) -> list[float]:
    data = reply.get("data") if isinstance(reply, Mapping) else None
    entry = data[0] if isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping) else {}
    logits = entry.get("probs", entry.get("data"))
    if not isinstance(logits, list) or not logits or not all(_is_number(logit) for logit in logits):
        raise RefusedError("the reply has no list of numbers")
    usage = reply.get("usage") if isinstance(reply, Mapping) else None
    read = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if isinstance(read, int):
        _expect(read, ids)
    return [float(logit) for logit in logits]


def root(address: Address) -> str:
    """A server's address without the `/v1` of its OpenAI-compatible part."""
    return address.url.removesuffix("/v1")


def tokenizer_fingerprint(chat: Chat) -> str:
    """Changes with the chat template and with how texts are cut into tokens."""
    inner = getattr(chat.tokenizer, "backend_tokenizer", None)
    words = inner.to_str() if inner is not None else json.dumps(sorted(chat.tokenizer.get_vocab().items()))
    return hashlib.sha256(json.dumps([chat.tokenizer.chat_template, words]).encode()).hexdigest()[:16]


def _first_choice(reply: object) -> Mapping[str, object]:
    choices = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise RefusedError("a reply without choices")
    return choices[0]


def _expect(read: int, ids: Tokens) -> None:
    if read != len(ids):
        raise RefusedError(f"the server told of {read} tokens, and {len(ids)} were sent")


def _other_tokens() -> RefusedError:
    return RefusedError("the server told of other tokens than were sent; does tokenizer= belong to the served model?")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _log_probability(value: object) -> float:
    if not isinstance(value, int | float) or not _is_number(value):
        raise RefusedError("the server left out the log-probability of a token that it was sent")
    return float(value)


def _same_text(ours: str, theirs: object) -> bool:
    """Parts of characters, and spaces, are written in more than one way."""
    if not isinstance(theirs, str):
        return False
    if "�" in ours or "�" in theirs or theirs.startswith("bytes:"):
        return True
    return ours.strip() == theirs.strip(" \n\t▁Ġ") or ours.strip() == theirs.strip()
