"""The chat API of OpenAI-compatible servers: what is sent, what servers refuse, and what comes back.

Servers differ, so nothing is taken for granted. Which optional settings a server does not take is learned from its own
refusals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from palate.engine._costs import Bound
from palate.engine._http_client import RefusedError, RetryError
from palate.engine._language import ChooseRequest, Chosen, Conversation, WriteRequest, Written

Body = dict[str, object]

PREFILLING = frozenset({"vllm", "sglang", "llamacpp"})
"""Servers that go on with an answer that was begun for them, by the name they give in `/models`."""

MOST_LIKELIEST = (20, 5)
"""How many likeliest tokens are asked for, and how many from a server that allows fewer."""

_NAMED = r"[\"'`(]{0}[\"'`)]|\bbody\.{0}\b|\b{0} (is|must|can)\b|(?i:unsupported|unknown|unexpected)\W[^.]*\b{0}\b"
_COMPLAINTS = {
    "max_tokens": r"max_completion_tokens",
    "n": _NAMED.format("n") + "|(?i:only one completion)",
    "seed": _NAMED.format("seed"),
    "logprobs": r"logprobs",
    "prefill": r"prefill|continue_final_message|add_generation_prompt",
}
"""What a refusal says about a setting that we can do without."""


OPENING_TOKENS = 4
"""Enough for `[[` and what follows it, however it is cut."""


class Dialect:
    """What a server takes. The optional settings that it refuses once are not sent again."""

    def __init__(self, model: str, *, logprobs: bool | None, prefill: bool | None) -> None:
        self._model = model
        self._refused: set[str] = set()
        self.logprobs = logprobs
        """Whether the server tells token probabilities; None until the first answer."""
        self.prefill = prefill
        """Whether it goes on with a begun answer; None until it was asked who it is."""
        self._likeliest = MOST_LIKELIEST[0]

    def writes_together(self, request: WriteRequest) -> bool:
        """Whether all samples come in one reply. At temperature 0 many servers refuse that."""
        return request.samples > 1 and request.sampling.temperature > 0 and "n" not in self._refused

    def tells_no_probabilities(self) -> bool:
        """Whether the server is known to keep token probabilities to itself."""
        return self.logprobs is False

    def refuse_together(self) -> None:
        """The server ignores `n`."""
        self._refused.add("n")

    def write_body(self, request: WriteRequest, *, samples: int, seed: int) -> Body:
        """The JSON of a request for text."""
        sampling = request.sampling
        instruction = f"Begin your answer with: {request.opening}"
        body = self._body(self._opened(request.turns, request.opening, instruction))
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        body |= {limit: sampling.most_tokens, "temperature": sampling.temperature}
        if sampling.top_p != 1:
            body["top_p"] = sampling.top_p
        if "seed" not in self._refused:
            body["seed"] = seed
        if samples > 1:
            body["n"] = samples
        return body

    def choose_body(self, request: ChooseRequest) -> Body:
        """The JSON of a request for the probabilities of the next token."""
        body = self._body(self._opened(request.turns, request.opening if self.prefill else ""))
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        most = self.tokens_to_choose(request)
        return body | {limit: most, "temperature": 0, "logprobs": True, "top_logprobs": self._likeliest}

    def tokens_to_choose(self, request: ChooseRequest) -> int:
        """One, or more where the server cannot be made to begin with the opening and writes it itself."""
        return OPENING_TOKENS if request.opening and not self.prefill else 1

    def learn(self, refusal: str, body: Body) -> bool:
        """Whether the refusal was about something that can be left out, so that asking again makes sense."""
        for setting, complaint in _COMPLAINTS.items():
            sent = setting in body or (setting == "prefill" and "continue_final_message" in body)
            if sent and re.search(complaint, refusal):
                return self._leave_out(setting, body)
        return False

    def _leave_out(self, setting: str, body: Body) -> bool:
        if setting == "prefill":
            self.prefill = False
        elif setting == "logprobs":
            if body.get("top_logprobs") == MOST_LIKELIEST[0]:
                self._likeliest = MOST_LIKELIEST[1]
            elif self.logprobs is None:
                self.logprobs = False
            return self.logprobs is not False and body.get("top_logprobs") != self._likeliest
        else:
            self._refused.add(setting)
        return True

    def _body(self, messages: list[dict[str, str]]) -> Body:
        body: Body = {"model": self._model, "messages": messages}
        if messages[-1]["role"] == "assistant" and self.prefill:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    def _opened(self, turns: Conversation, opening: str, instruction: str = "") -> list[dict[str, str]]:
        """The messages, with the answer begun where the server can go on with it, else with the instruction."""
        messages = [{"role": turn.role, "content": whole(turn.content)} for turn in turns]
        if not opening:
            return messages
        if self.prefill:
            return [*messages, {"role": "assistant", "content": whole(opening)}]
        if messages and messages[-1]["role"] == "user":
            last = messages.pop()["content"]
            return [*messages, {"role": "user", "content": f"{last}\n\n{whole(instruction)}"}]
        return [*messages, {"role": "user", "content": whole(instruction)}]


def bound(turns: Conversation, most_tokens: int, samples: int = 1) -> Bound:
    """The most tokens that a request can take: no tokenizer makes more than one token of a byte."""
    size = sum(len(turn.content.encode("utf-8", "replace")) + 16 for turn in turns)
    return Bound(size + 256, most_tokens * samples)


SPACE_MARKS = "▁Ġ"
"""How some tokenizers write the space before a word."""


def read_written(reply: object, *, opening: str, most_tokens: int) -> list[Written]:
    """The samples of one reply, without the opening where the server repeats it."""
    choices = _choices(reply)
    texts = [_text(choice) for choice in choices]
    tokens = _share(_said_tokens(reply), texts)
    return [
        Written(text=text.removeprefix(opening), tokens=count, finished=_finished(choice, count, most_tokens))
        for choice, text, count in zip(choices, texts, tokens, strict=True)
    ]


def read_chosen(reply: object, choices: Sequence[str], opening: str = "") -> Chosen | None:
    """How the probability of the next token falls on the choices; None if the server tells no probabilities.

    It is the first token, or, where the server writes the opening itself, the one after it. A choice and the same
    choice after a space are different tokens and one answer: they are added up.
    """
    tokens = _tokens(_choices(reply)[0])
    if tokens is None:
        return None
    written, mass = "", 0.0
    for token, likeliest in tokens:
        found = dict.fromkeys(choices, 0.0)
        for text, probability in likeliest:
            word = (written + text.lstrip(SPACE_MARKS)).strip()
            word = word.removeprefix(opening).rstrip("]").strip() if opening else word
            if word in found:
                found[word] += probability
        mass = sum(found.values())
        written = f"{written}{token.lstrip(SPACE_MARKS)}".strip()
        if mass > 0 or not opening.startswith(written) or written == "":
            break
    if mass <= 0:
        seen = ", ".join(repr(text) for text, _ in tokens[0][1][:5])
        raise RefusedError(f"none of the choices is among the {len(tokens[0][1])} likeliest tokens, which begin {seen}")
    return Chosen(probabilities=tuple(found[choice] / mass for choice in choices), mass=min(1.0, mass))


def whole(text: str) -> str:
    """The text with half characters replaced: no JSON reader is bound to take them.

    >>> whole("\\ud83d\\ude00 \\ud83d")
    '😀 �'
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _choices(reply: object) -> list[Mapping[str, object]]:
    choices = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(choices, list) or not choices:
        raise RetryError("an answer without choices")
    if not all(isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices):
        raise RetryError("an answer without a message")
    return choices


def _text(choice: Mapping[str, object]) -> str:
    message, reason = choice["message"], choice.get("finish_reason")
    assert isinstance(message, Mapping)
    if reason == "content_filter":
        raise RefusedError("the server's content filter cut the answer")
    content = message.get("content")
    if isinstance(content, list):  # some servers answer in parts
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is None:
        if refusal := message.get("refusal"):
            raise RefusedError(f"the model refused: {refusal}")
        if not isinstance(reason, str):
            raise RetryError("an answer without content")
        content = ""
    if not isinstance(content, str):
        raise RetryError("content that is not text")
    return whole(content)


def _finished(choice: Mapping[str, object], tokens: int, most_tokens: int) -> bool:
    reason = choice.get("finish_reason")
    return reason != "length" if isinstance(reason, str) else tokens < most_tokens


def _said_tokens(reply: object) -> int | None:
    usage = reply.get("usage") if isinstance(reply, Mapping) else None
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) else None


def _share(total: int | None, texts: Sequence[str]) -> list[int]:
    """Tokens of each sample: the server tells only their sum, which is shared out by length."""
    if total is not None and len(texts) == 1:
        return [total]
    lengths = [len(text) for text in texts]
    if total is None:
        return [math.ceil(length / 4) for length in lengths]
    return [round(total * length / max(1, sum(lengths))) for length in lengths]


def _tokens(choice: Mapping[str, object]) -> list[tuple[str, list[tuple[str, float]]]] | None:
    """Each token that was written, with the likeliest ones in its place."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    tokens = []
    for entry in content if isinstance(content, list) else ():
        likeliest = _likeliest(entry)
        if likeliest is None:
            break
        token = entry.get("token")
        tokens.append((token if isinstance(token, str) else "", likeliest))
    return tokens or None


def _likeliest(place: object) -> list[tuple[str, float]] | None:
    """The likeliest tokens in one place with their probabilities, each once."""
    entries = place.get("top_logprobs") if isinstance(place, Mapping) else None
    if not isinstance(entries, list):
        return None
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in entries:
        token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, Mapping) else (None, None)
        if isinstance(token, str) and isinstance(logprob, int | float) and not math.isnan(logprob):
            found[(repr(entry.get("id")), token)] = token, math.exp(min(0.0, logprob))
    return list(found.values()) or None
