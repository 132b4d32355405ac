"""How one chat server wants to be asked, learned from its own refusals."""

from __future__ import annotations

import re

from palate.engine._language import ChooseRequest, Conversation, WriteRequest
from palate.engine._replies import whole
from palate.engine._spending import Bound

Body = dict[str, object]

PREFILLING = frozenset({"vllm", "sglang", "llamacpp"})
"""Servers that go on with an answer that was begun for them, by the name they give in `/models`."""

MOST_LIKELIEST = (20, 5)
"""How many likeliest tokens are asked for, and how many from a server that will not tell so many."""

_NAMED = r"[\"'`(]{0}[\"'`)]|\bbody\.{0}\b|\b{0} (is|must|can)\b|(?i:unsupported|unknown|unexpected)\W[^.]*\b{0}\b"
_COMPLAINTS = {
    "max_tokens": r"max_completion_tokens",
    "n": _NAMED.format("n") + "|(?i:only one completion)",
    "seed": _NAMED.format("seed"),
    "logprobs": r"logprobs",
    "prefill": r"prefill|continue_final_message|add_generation_prompt",
}
"""What a refusal says about a setting that we can do without."""


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
        instruction = f"Answer with one of these and nothing else: {', '.join(request.choices)}"
        body = self._body(self._opened(request.turns, request.opening, instruction))
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        return body | {limit: 1, "temperature": 0, "logprobs": True, "top_logprobs": self._likeliest}

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

    def _opened(self, turns: Conversation, opening: str, instruction: str) -> list[dict[str, str]]:
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
