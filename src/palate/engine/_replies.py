"""Reads what chat servers answer. Servers differ, so nothing is taken for granted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from palate.engine._language import Chosen, Written
from palate.engine._statuses import RefusedError, RetryError

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


def read_chosen(reply: object, choices: Sequence[str]) -> Chosen | None:
    """How the first token's probability falls on the choices; None if the server tells no probabilities.

    A choice and the same choice after a space are different tokens and one answer: they are added up.
    """
    likeliest = _first_token(_choices(reply)[0])
    if likeliest is None:
        return None
    found = dict.fromkeys(choices, 0.0)
    for text, probability in likeliest:
        word = text.strip().lstrip(SPACE_MARKS)
        if word in found:
            found[word] += probability
    mass = sum(found.values())
    if mass <= 0:
        seen = ", ".join(repr(text) for text, _ in likeliest[:5])
        raise RefusedError(f"none of the choices is among the {len(likeliest)} likeliest tokens, which begin {seen}")
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


def _first_token(choice: Mapping[str, object]) -> list[tuple[str, float]] | None:
    """The likeliest first tokens with their probabilities, each once."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    first = content[0] if isinstance(content, list) and content else None
    entries = first.get("top_logprobs") if isinstance(first, Mapping) else None
    if not isinstance(entries, list):
        return None
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in entries:
        token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, Mapping) else (None, None)
        if isinstance(token, str) and isinstance(logprob, int | float) and not math.isnan(logprob):
            found[(repr(entry.get("id")), token)] = token, math.exp(min(0.0, logprob))
    return list(found.values()) or None
