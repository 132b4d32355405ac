"""A language model behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, or a commercial one."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from palate.engine._chat_api import PREFILLING, Body, Dialect, bound, read_chosen, read_written
from palate.engine._costs import Bound, CostTracker, Prices, Usage
from palate.engine._given_tokens import TokenLikelihoods, tokenizer_fingerprint
from palate.engine._http_client import Address, LostError, RefusedError, RetryError, Sender, Session
from palate.engine._language import (
    Answer,
    Answers,
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    Likelihood,
    LikelihoodRequest,
    OnAnswer,
    Turn,
    WriteRequest,
    Written,
)
from palate.engine._meter import CHARACTERS, count_usage, rehearsing
from palate.engine._throttle import RetryPolicy
from palate.records import PalateError

if TYPE_CHECKING:
    from palate.engine._chat import Chat

NO_PROBABILITIES = "the server gives no token probabilities"
NO_LIKELIHOOD = "how likely a text is takes the served model's tokenizer: say tokenizer=FOLDER or tokenizer=org/name"
WORDING = 1
"""Part of the fingerprint: raise it when the same request is put to servers in other words."""


class RemoteModel:
    """Asks a chat server, many requests at a time; one that failed for good is a `Failure` with the reason.

    An answer's `opening` is begun for the model by servers that can go on with it (vLLM, SGLang and
    llama.cpp, which say so in `/models`; `prefill` overrides). Other servers get an instruction at the
    end of the last user turn: to begin with the opening when writing, to answer with nothing but one of
    the choices when choosing. `choose` compares whole first tokens, so choices are best single letters.

    The key is read from the environment when a request is sent and is kept nowhere. `prices` are for a
    million prompt and a million completion tokens; with `most_spent`, no request is sent whose worst case
    would pass it. With `chat`, the tokenizer of the served model with its template, it tells likelihoods too,
    where the server does. Where several samples come in one reply, `Written.tokens` shares their sum by length.
    """

    context: int | None = None
    templated = True
    """A chat server has its template on its own side."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        key_variable: str = "OPENAI_API_KEY",
        concurrency: int = 32,
        timeout: float = 120,
        most_spent: float | None = None,
        prices: Prices | None = None,
        logprobs: bool | None = None,
        prefill: bool | None = None,
        together: bool = True,
        retry_policy: RetryPolicy | None = None,
        chat: Chat | None = None,
    ) -> None:
        self.name = name
        self.usage = Usage()
        server = base_url.strip().rstrip("/").removesuffix("/chat/completions")
        address = Address(server, key_variable, needs_key=True)
        address.headers()  # a missing key is an error now, not after an hour
        self._costs = CostTracker(self.usage, prices, most_spent)
        self._sender = Sender(
            address,
            concurrency=concurrency,
            timeout=timeout,
            retry_policy=retry_policy,
            costs=self._costs,
            not_found=f"Is the model name {name!r} right, and does the address end in /v1?",
        )
        self._asked_prefill = prefill
        self._chat = chat
        self._dialect = Dialect(name, logprobs=logprobs, prefill=prefill)
        if not together:
            self._dialect.refuse_together()

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r}, base_url={self._sender.address.url!r})"

    @property
    def fingerprint(self) -> str:
        """The server's address and the model's name: no server tells its weights."""
        known = [WORDING, self._sender.address.url, self.name, self._asked_prefill]
        if self._chat is not None:
            known.append(tokenizer_fingerprint(self._chat))
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def status(self) -> str:
        """What was used so far, for a progress bar: `12,300 tokens in, 800 out, 0.02 spent, 3 retries`."""
        return self._costs.status()

    def count_tokens(self, turns: Conversation) -> int | None:
        """Only the server knows."""
        return None

    def write(
        self, requests: Sequence[WriteRequest], *, on_answer: OnAnswer[list[Written]] = None
    ) -> Answers[list[Written]]:
        """For each request its samples; `on_answer` hears of each as soon as it is there."""
        if rehearsing():
            return _told([self._rehearsed_text(request) for request in requests], on_answer)
        self._learn_prefill(any(request.opening for request in requests))
        return self._sender.run(requests, self._write, on_answer)

    def choose(self, requests: Sequence[ChooseRequest], *, on_answer: OnAnswer[Chosen] = None) -> Answers[Chosen]:
        """For each request how the first token's probability falls on the choices."""
        if rehearsing():
            return _told([self._rehearsed_choice(request) for request in requests], on_answer)
        if not self._dialect.tells_no_probabilities():
            self._learn_prefill(any(request.opening for request in requests))
        if self._dialect.logprobs is None and requests:  # one request tells whether the server can
            first = self._sender.run(requests[:1], self._choose, on_answer)
            later = None if on_answer is None else lambda index, answer: on_answer(index + 1, answer)
            return first + self._sender.run(requests[1:], self._choose, later)
        return self._sender.run(requests, self._choose, on_answer)

    def likelihood(
        self, requests: Sequence[LikelihoodRequest], *, on_answer: OnAnswer[list[Likelihood]] = None
    ) -> Answers[list[Likelihood]]:
        """The log-probability of each continuation as the whole answer; a `Failure` without the model's tokenizer."""
        if rehearsing() and self._likelihoods is not None:
            return _told([self._rehearsed_likelihood(request) for request in requests], on_answer)
        if self._likelihoods is not None:
            return self._likelihoods.likelihood(requests, on_answer)
        for index in range(len(requests)):
            if on_answer is not None:
                on_answer(index, Failure(NO_LIKELIHOOD))
        return [Failure(NO_LIKELIHOOD) for _ in requests]

    @cached_property
    def _likelihoods(self) -> TokenLikelihoods | None:
        return None if self._chat is None else TokenLikelihoods(self.name, self._sender, self._chat)

    # A rehearsal sends nothing: each request counts with its length in characters and the longest answer there may be

    def _rehearsed_text(self, request: WriteRequest) -> list[Written] | Failure:
        most = request.sampling.most_tokens
        together = self._dialect.writes_together(request)
        for samples in [request.samples] if together else [1] * request.samples:
            self._expect(request.turns, most * samples)
        return [Written(text="word" * most, tokens=most, finished=False)] * request.samples

    def _rehearsed_choice(self, request: ChooseRequest) -> Chosen | Failure:
        if self._dialect.tells_no_probabilities():
            return Failure(NO_PROBABILITIES)
        self._expect(request.turns, self._dialect.tokens_to_choose(request))
        return Chosen(probabilities=(1 / len(request.choices),) * len(request.choices), mass=1.0)

    def _rehearsed_likelihood(self, request: LikelihoodRequest) -> list[Likelihood] | Failure:
        for text in request.continuations:
            self._expect((*request.turns, Turn("assistant", text)), 1)
        return [Likelihood(total=0.0, tokens=1)] * len(request.continuations)

    def _expect(self, turns: Conversation, most_tokens: int) -> None:
        before = copy.copy(self.usage)
        self._costs.expect(sum(len(turn.content) for turn in turns) // CHARACTERS, most_tokens)
        count_usage(before, self.usage, priced=self._costs.priced)
        meter = rehearsing()
        if meter is not None:
            meter.not_asked()

    async def _write(self, session: Session, request: WriteRequest) -> list[Written] | Failure:
        if request.samples < 1:
            return []
        seed, written = request.sampling.seed, list[Written]()
        try:
            if self._dialect.writes_together(request):
                written = await self._write_samples(session, request, request.samples, seed)
                if len(written) < request.samples:
                    self._dialect.refuse_together()
            while len(written) < request.samples:
                written += await self._write_samples(session, request, 1, seed + len(written))
        except (RefusedError, LostError) as problem:
            return Failure(problem.reason)
        return written[: request.samples]

    async def _write_samples(self, session: Session, request: WriteRequest, samples: int, seed: int) -> list[Written]:
        most = request.sampling.most_tokens

        def body() -> Body:
            together = samples > 1 and self._dialect.writes_together(request)
            return self._dialect.write_body(request, samples=samples if together else 1, seed=seed)

        def read(reply: object) -> list[Written]:
            return read_written(reply, opening=request.opening, most_tokens=most)

        return await self._ask(session, body, read, bound(request.turns, most, samples))

    async def _choose(self, session: Session, request: ChooseRequest) -> Chosen | Failure:
        def body() -> Body:
            return self._dialect.choose_body(request)

        def read(reply: object) -> Chosen | None:
            chosen = read_chosen(reply, request.choices, "" if self._dialect.prefill else request.opening)
            if chosen is None and self._dialect.logprobs:
                raise RetryError(NO_PROBABILITIES)
            self._dialect.logprobs = chosen is not None
            return chosen

        if self._dialect.tells_no_probabilities():
            return Failure(NO_PROBABILITIES)
        try:
            chosen = await self._ask(session, body, read, bound(request.turns, self._dialect.tokens_to_choose(request)))
        except (RefusedError, LostError) as problem:
            return Failure(NO_PROBABILITIES if self._dialect.tells_no_probabilities() else problem.reason)
        return chosen or Failure(NO_PROBABILITIES)

    async def _ask(
        self, session: Session, body: Callable[[], Body], read: Callable[[object], Answer], most: Bound
    ) -> Answer:
        """Ask, and ask in other words as long as the server's refusal teaches how."""
        url = f"{self._sender.address.url}/chat/completions"
        while True:
            sent = body()
            try:
                return await session.post(url, sent, read, most)
            except RefusedError as refusal:
                if refusal.status not in (400, 422) or not self._dialect.learn(refusal.reason, sent):
                    raise

    def _learn_prefill(self, needed: bool) -> None:
        """Ask the server once who it is, if that decides how an opening is sent."""
        if not needed or self._dialect.prefill is not None:
            return

        async def who(session: Session, url: str) -> bool:
            try:
                return await session.get(url, _prefills)
            except RefusedError:
                return False
            except LostError as problem:
                raise PalateError(f"{url} does not answer: {problem.reason}") from None

        [self._dialect.prefill] = self._sender.run([f"{self._sender.address.url}/models"], who)


def _told(answers: list[Answer | Failure], on_answer: OnAnswer[Answer]) -> list[Answer | Failure]:
    for index, answer in enumerate(answers):
        if on_answer is not None:
            on_answer(index, answer)
    return answers


def _prefills(reply: object) -> bool:
    models = reply.get("data") if isinstance(reply, Mapping) else None
    listed = models if isinstance(models, list) else []
    return any(model.get("owned_by") in (*PREFILLING,) for model in listed if isinstance(model, Mapping))
