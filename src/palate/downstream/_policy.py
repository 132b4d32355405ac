"""How a policy, the language model that writes, is opened, checked and asked."""

from __future__ import annotations

import hashlib
import math

import msgspec

from palate.engine import LanguageModel, Sampling, WriteRequest, open_by_spec
from palate.records import Ask, Comparison, PalateError, View
from palate.rewards import conversation, fit_view
from palate.runs import Item


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """How many texts are drawn for each prompt, and how."""

    samples: int = 16
    temperature: float = 1.0
    top_p: float = 0.9
    tokens: int = 256

    def check(self) -> None:
        """Refuse what cannot be drawn, before anything is loaded."""
        if self.samples < 1:
            raise PalateError(f"-n is the number of samples for each prompt, from 1; {self.samples} was given")
        if self.tokens < 1:
            raise PalateError(
                f"--tokens is the maximum number of tokens of a sample, at least 1; {self.tokens} was given"
            )
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise PalateError(f"--temperature is 0 or more; {self.temperature} was given")
        if not 0 < self.top_p <= 1:
            raise PalateError(f"--top-p is more than 0 and at most 1; {self.top_p} was given")


def open_policy(policy: str | LanguageModel, drawing: Drawing) -> LanguageModel:
    """The model by name, refused where its answers would have no end or no room."""
    model = open_by_spec(policy) if isinstance(policy, str) else policy
    if not getattr(model, "templated", True):
        raise PalateError(
            f"the policy {model.name} has no chat template, so that it does not know where an answer begins and ends. "
            "Name a model that was tuned to answer, or put a chat_template into its tokenizer's files."
        )
    if model.context is not None and drawing.tokens >= model.context:
        raise PalateError(
            f"the policy {model.name} has a context of {model.context} tokens, and {drawing.tokens} of them for the "
            "answer leave none for the prompt; lower --tokens"
        )
    return model


def write_request(
    policy: LanguageModel, item: Item, view: View, drawing: Drawing, seed: int
) -> tuple[WriteRequest, int, str | None]:
    """What the policy is asked; how many parts of the view it sees; and what did not fit its context.

    The view stands where it stands for reward models: a system turn before the user's own.
    """
    ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=view)
    room = None if policy.context is None else policy.context - drawing.tokens
    ask, note = fit_view(ask, lambda one: policy.count_tokens(conversation(one)), room)
    sampling = Sampling(
        most_tokens=drawing.tokens,
        temperature=drawing.temperature,
        top_p=drawing.top_p,
        seed=item_seed(item, seed),
    )
    request = WriteRequest(turns=conversation(ask), sampling=sampling, samples=drawing.samples)
    return request, len(ask.view.parts), note


def item_seed(item: Item, seed: int) -> int:
    """Depends on the item alone, so that dropping one changes no other.

    Twins share it: where the policy sees nothing of them, both choose from the same texts.
    """
    twin = item.twin if isinstance(item, Comparison) else None
    key = f"{seed}\x00{min(item.id, twin) if twin else item.id}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4]) >> 2  # some servers take no more than 31 bits, and samples count up from it
