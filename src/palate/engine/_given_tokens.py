"""What servers tell of texts that they are given as tokens: how likely each token is, or a classifier's logits.

The chat template is applied here, with the served model's own tokenizer, so that a server reads the same tokens as
the model would in this process. What comes back is checked to be about these tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

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
Value = TypeVar("Value")

PROBE = (Turn("user", "Good morning. What shall I drink?"),)
PROBE_ANSWERS = ("A pot of green tea.", "No.", "x x x x")
IMPOSSIBLE = -9999.0
"""What vLLM writes for minus infinity, which JSON cannot hold."""


@dataclass(frozen=True)
class LikelihoodEndpoint:
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
    about = _part(reply, "meta_info")
    entries = about.get("input_token_logprobs")
    if not isinstance(entries, list) or not all(isinstance(entry, list) and len(entry) >= 2 for entry in entries):
        raise RefusedError("the reply has no input_token_logprobs")
    _expect_count(about, ids)
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


LIKELIHOOD_ENDPOINTS = (
    LikelihoodEndpoint(
        "prompt_logprobs of /v1/completions", "/v1/completions", _prompt_logprobs_body, _read_prompt_logprobs
    ),
    LikelihoodEndpoint("/generate", "/generate", _generate_body, _read_generate),
    LikelihoodEndpoint("echo of /v1/completions", "/v1/completions", _echo_body, _read_echo),
)
"""vLLM's; SGLang's, which reads a profile once for many texts; and what OpenAI's servers once did."""


class TokenLikelihoods:
    """Asks one server how likely answers are, at the first endpoint that it knows."""

    def __init__(self, model: str, sender: Sender, chat: Chat) -> None:
        self._model = model
        self._sender = sender
        self._chat = chat
        self._endpoint: LikelihoodEndpoint | None = None

    def likelihood(
        self, requests: Sequence[LikelihoodRequest], on_answer: OnAnswer[list[Likelihood]]
    ) -> Answers[list[Likelihood]]:
        """Of each continuation as the whole answer."""
        if not requests:
            return []
        endpoint = self._endpoint = self._endpoint or self._learn()
        groups = [self._chat.whole_answers(request.turns, request.continuations) for request in requests]

        async def read(session: Session, prefix: Tokens, continuation: Tokens) -> Likelihood:
            ids = [*prefix, *continuation]
            numbers = await self._ask(session, endpoint, ids, len(prefix)) if continuation else []
            return Likelihood(total=math.fsum(numbers), tokens=len(continuation))

        return read_together(self._sender, groups, read, on_answer)

    async def _ask(
        self, session: Session, endpoint: LikelihoodEndpoint, ids: Tokens, start: int, *, optional: bool = False
    ) -> list[float]:
        url = root(self._sender.address) + endpoint.path
        return await session.post(
            url,
            endpoint.body(self._model, ids, start),
            lambda reply: endpoint.read(reply, ids, start, self._chat),
            Bound(len(ids), 1),
            optional=optional,
        )

    def _learn(self) -> LikelihoodEndpoint:
        """The first endpoint that the server knows, found out with a short text."""
        group = self._chat.whole_answers(PROBE, PROBE_ANSWERS[:1])
        ids, start = [*group.prefix, *group.continuations[0]], len(group.prefix)
        refusals = []

        async def attempt(session: Session, endpoint: LikelihoodEndpoint) -> bool:
            try:
                await self._ask(session, endpoint, ids, start, optional=True)
            except (RefusedError, LostError) as problem:
                refusals.append(f"{endpoint.name}: {problem.reason}")
                return False
            return True

        for endpoint in LIKELIHOOD_ENDPOINTS:
            if self._sender.run([endpoint], attempt) == [True]:
                return endpoint
        raise PalateError(
            f"the server at {self._sender.address.url} does not tell how likely a given text is ({'; '.join(refusals)})"
            ". vLLM and SGLang do, llama.cpp does not: serve the model there, or run it here, without url="
        )


@dataclass(frozen=True)
class ClassifierEndpoint:
    """One way to ask a server for the logits of tokens that it is given."""

    name: str
    path: str
    body: Callable[[str, Tokens, bool], Body]
    """Of the model's name, the tokens, and whether probabilities are wanted."""
    read: Callable[[object, Tokens], list[float]]
    activates: bool
    """Whether it makes probabilities of logits unless it is told not to."""


def _classify_body(model: str, ids: Tokens, activation: bool) -> Body:
    return {"model": model, "input": ids, "use_activation": activation}


def _pooling_body(model: str, ids: Tokens, activation: bool) -> Body:
    return {**_classify_body(model, ids, activation), "task": "classify"}


def _read_logits(reply: object, ids: Tokens) -> list[float]:
    data = reply.get("data") if isinstance(reply, Mapping) else None
    entry = data[0] if isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping) else {}
    _expect_count(_part(reply, "usage"), ids)
    return _numbers(entry.get("probs", entry.get("data")))


def _embedding_body(model: str, ids: Tokens, activation: bool) -> Body:
    return {"model": model, "input_ids": ids}


def _read_embedding(reply: object, ids: Tokens) -> list[float]:
    _expect_count(_part(reply, "meta_info"), ids)
    return _numbers(reply.get("embedding") if isinstance(reply, Mapping) else None)


CLASSIFIER_ENDPOINTS = (
    ClassifierEndpoint("vLLM's /classify", "/classify", _classify_body, _read_logits, activates=True),
    ClassifierEndpoint("vLLM's /pooling", "/pooling", _pooling_body, _read_logits, activates=True),
    ClassifierEndpoint("SGLang's /classify", "/classify", _embedding_body, _read_embedding, activates=False),
)


class RemoteClassifier:
    """A sequence classifier behind vLLM or SGLang: one logit for each answer."""

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
        not_found = f"Is the model name {name!r} right, and is it served as a classifier?"
        self._sender = Sender(address, concurrency=32, timeout=120, not_found=not_found)
        self._asked_label = label
        self._label = label or 0
        self._endpoint: ClassifierEndpoint | None = None

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
        """One number for each continuation of each group."""
        if not groups:
            return []
        endpoint = self._endpoint = self._endpoint or self._learn()

        async def read(session: Session, prefix: Tokens, continuation: Tokens) -> float:
            return (await self._ask(session, endpoint, [*prefix, *continuation]))[self._label]

        return read_together(self._sender, groups, read, None)

    async def _ask(
        self,
        session: Session,
        endpoint: ClassifierEndpoint,
        ids: Tokens,
        *,
        activation: bool = False,
        optional: bool = False,
    ) -> list[float]:
        body = endpoint.body(self.name, ids, activation)
        url = root(self._sender.address) + endpoint.path
        return await session.post(
            url, body, lambda reply: endpoint.read(reply, ids), Bound(len(ids), 0), optional=optional
        )

    def _learn(self) -> ClassifierEndpoint:
        """Where the server tells logits, found out with short texts."""
        group = self.group(LikelihoodRequest(turns=PROBE, continuations=PROBE_ANSWERS))
        probes = [[*group.prefix, *continuation] for continuation in group.continuations]
        refusals = list[str]()

        async def attempt(session: Session, endpoint: ClassifierEndpoint) -> int | None:
            try:
                logits = [await self._ask(session, endpoint, ids, optional=True) for ids in probes]
                if _are_embeddings(logits):
                    raise RefusedError("these are embeddings; is the model a sequence classifier?")
                if endpoint.activates:
                    active = [await self._ask(session, endpoint, ids, activation=True, optional=True) for ids in probes]
                    if _are_embeddings(active):
                        raise RefusedError("these are embeddings; is the model a sequence classifier?")
                    if _close(logits, active) and _may_be_probabilities(logits):
                        raise RefusedError(
                            "use_activation changes nothing, so these may be probabilities and no logits"
                        )
            except (RefusedError, LostError) as problem:
                refusals.append(f"{endpoint.name}: {problem.reason}")
                return None
            return len(logits[0])

        for endpoint in CLASSIFIER_ENDPOINTS:
            [labels] = self._sender.run([endpoint], attempt)
            if labels is not None:
                self._check_label(labels)
                return endpoint
        raise PalateError(
            f"the server at {self._sender.address.url} tells no logits of {self.name!r} ({'; '.join(refusals)}). "
            "vLLM does for a sequence classifier (--runner pooling), and so does SGLang (--is-embedding); "
            "or run it here, without url="
        )

    def _check_label(self, labels: int) -> None:
        if self._asked_label is None and labels != 1:
            raise PalateError(f"{self.name} gives {labels} logits; say which one is the reward: index=0")
        if self._label >= labels:
            raise PalateError(f"{self.name} gives {labels} logits; index={self._label} is not among them")


def read_together(
    sender: Sender,
    groups: Sequence[Group],
    read: Callable[[Session, Tokens, Tokens], Awaitable[Value]],
    on_answer: OnAnswer[list[Value]],
) -> Answers[list[Value]]:
    """What is read of each group's continuations, by a server that keeps what it has read for a while.

    Groups that begin alike, such as the asks about one user, are sent one after another. The first text of them is
    sent alone, so that the others find their beginning read.
    """
    order = sorted(range(len(groups)), key=lambda index: list(groups[index].prefix))
    leaders = _leaders([list(groups[index].prefix) for index in order])
    has_begun = [asyncio.Event() for _ in order]

    async def work(session: Session, place: int) -> list[Value] | Failure:
        prefix, continuations = list(groups[order[place]].prefix), groups[order[place]].continuations
        if leaders[place] != place:
            await has_begun[leaders[place]].wait()
        try:
            found = [await read(session, prefix, list(continuation)) for continuation in continuations[:1]]
            has_begun[place].set()
            others = (read(session, prefix, list(continuation)) for continuation in continuations[1:])
            for value in await asyncio.gather(*others, return_exceptions=True):
                if isinstance(value, BaseException):
                    raise value
                found.append(value)
        except (RefusedError, LostError) as problem:
            return Failure(problem.reason)
        finally:
            has_begun[place].set()
        return found

    def heard(place: int, answer: list[Value] | Failure) -> None:
        if on_answer is not None:
            on_answer(order[place], answer)

    answers = dict(zip(order, sender.run(range(len(order)), work, heard), strict=True))
    return [answers[index] for index in range(len(groups))]


def _leaders(prefixes: Sequence[Tokens]) -> list[int]:
    """For each prefix, in order, the place of the first one that has at least half of it in common."""
    from palate.engine._kv_cache import common_prefix

    leaders: list[int] = []
    for place, prefix in enumerate(prefixes):
        leader = leaders[-1] if leaders else place
        shared = common_prefix(prefixes[leader], prefix)
        leaders.append(leader if 2 * shared >= max(len(prefix), len(prefixes[leader])) else place)
    return leaders


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


def _part(reply: object, name: str) -> Mapping[str, object]:
    part = reply.get(name) if isinstance(reply, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _expect_count(usage: Mapping[str, object], ids: Tokens) -> None:
    """A server that counts must have counted what was sent: some cut long texts in silence."""
    if isinstance(read := usage.get("prompt_tokens"), int):
        _expect(read, ids)


def _numbers(values: object) -> list[float]:
    if not isinstance(values, list) or not values or not all(_is_number(value) for value in values):
        raise RefusedError("the reply has no list of numbers")
    return [float(value) for value in values]


def _close(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    pairs = ((a, b) for row, beside in zip(one, other, strict=True) for a, b in zip(row, beside, strict=True))
    return all(abs(a - b) < 1e-6 for a, b in pairs)


def _may_be_probabilities(rows: Sequence[Sequence[float]]) -> bool:
    """A classifier that was configured as a regression has logits only, and no activation that could be left out."""
    return all(0 <= value <= 1 for row in rows for value in row)


def _are_embeddings(rows: Sequence[Sequence[float]]) -> bool:
    """Servers of embeddings answer at the same addresses, with vectors of length 1."""
    return all(len(row) > 1 and min(row) < 0 and abs(math.hypot(*row) - 1) < 1e-3 for row in rows)


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
    if value <= IMPOSSIBLE:
        raise RefusedError("the model gives a token of the response no probability at all")
    return float(value)


def _same_text(ours: str, theirs: object) -> bool:
    """Parts of characters, and spaces, are written in more than one way."""
    if not isinstance(theirs, str):
        return False
    if "�" in ours or "�" in theirs or theirs.startswith("bytes:"):
        return True
    return ours.strip() == theirs.strip(" \n\t▁Ġ") or ours.strip() == theirs.strip()
