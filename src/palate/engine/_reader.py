"""Reading texts that grow: what was read before is kept, and only what is new is read.

A text is followed by giving, again and again, whole rows of tokens that may come of it. The longest beginning that
all rows share with what was read before is not read again; what they share beyond it is read once; and then each
row's own tokens, side by side. Where the tokens of a text change when it goes on, as they do when one model reads
what another wrote, what was read falls back to where they part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from palate.engine._chat import common
from palate.engine._scorer import LOGITS_AT_ONCE, head_logits

FEW = 16
"""So many tokens more, in all rows together, cost less than a pass of their own."""


@dataclass(frozen=True)
class _Tip:
    """What one row had beyond the others when it was last read; the text may go on with it."""

    ids: list[int]
    held: Tensor
    states: Tensor


@dataclass
class Text:
    """What was read of a text: tokens; their keys and values (layers, 2, heads, tokens, size); their last states."""

    ids: list[int]
    held: Tensor
    states: Tensor
    tips: list[_Tip] = field(default_factory=list)

    def cut(self, length: int) -> None:
        """Forget what comes after so many tokens."""
        if length < len(self.ids):
            self.ids, self.held, self.states = self.ids[:length], self.held[..., :length, :], self.states[:length]
            self.tips = []

    def go_on(self, tip: _Tip, length: int) -> None:
        """Take over the beginning of what one row had for itself."""
        self.ids = [*self.ids, *tip.ids[:length]]
        self.held = torch.cat([self.held, tip.held[..., :length, :]], dim=-2)
        self.states = torch.cat([self.states, tip.states[:length]])
        self.tips = []


@dataclass(frozen=True)
class Reading:
    """What was read of some rows: how many tokens they share, and the states from the last shared token on."""

    start: int
    states: list[Tensor]
    """For each row: the state at i is the one that predicts its token `start + i`; the last stands at its end."""


class Reader:
    """A decoder that goes on with texts it has read. Texts read together do not see each other."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.device: torch.device = next(model.parameters()).device
        self.budget = 2**20 if self.device.type == "cuda" else 2**14
        """Tokens of all rows in one pass, those read before included: their keys are laid out for each row."""
        self._empty = _nothing_read(model)

    @property
    def able(self) -> bool:
        """Whether what this model has read can be kept and gone on from; a running state, for one, cannot."""
        return self._empty is not None

    def begin(self) -> Text:
        """A text of which nothing was read yet."""
        assert self._empty is not None
        return Text([], *self._empty)

    @torch.inference_mode()
    def read(self, texts: Sequence[Text], rows: Sequence[Sequence[list[int]]]) -> list[Reading]:
        """Go on with each of the texts to its rows, each of at least two tokens."""
        ahead = [_settled(text, own) for text, own in zip(texts, rows, strict=True)]
        behind = [(text, more) for text, more in zip(texts, ahead, strict=True) if more]
        self._pass([text for text, _ in behind], [[more] for _, more in behind])
        for text, more in behind:
            text.go_on(text.tips[0], len(more))
        own = [[row[len(text.ids) :] for row in some] for text, some in zip(texts, rows, strict=True)]
        self._pass(texts, own)
        return [
            Reading(len(text.ids), [torch.cat([text.states[-1:], tip.states]) for tip in text.tips]) for text in texts
        ]

    def _pass(self, texts: Sequence[Text], rows: Sequence[Sequence[list[int]]]) -> None:
        for some in self._batches(texts, rows):
            self._batch([texts[index] for index in some], [rows[index] for index in some])

    def _batches(self, texts: Sequence[Text], rows: Sequence[Sequence[list[int]]]) -> Iterator[list[int]]:
        some: list[int] = []
        longest = widest = 0
        for index, (text, own) in enumerate(zip(texts, rows, strict=True)):
            length = max(longest, len(text.ids) + max(map(len, own)))
            width = max(widest, len(own))
            if some and (len(some) + 1) * length * width > self.budget:
                yield some
                some, length, width = [], len(text.ids) + max(map(len, own)), len(own)
            some.append(index)
            longest, widest = length, width
        if some:
            yield some

    def _batch(self, texts: Sequence[Text], rows: Sequence[Sequence[list[int]]]) -> None:
        """One pass: what was read stands on the left, filled up before it; rows are filled up after their end."""
        width, longest = max(map(len, rows)), max(len(row) for own in rows for row in own)
        ids = torch.zeros((len(texts), width, longest), dtype=torch.long)
        for place, own in enumerate(rows):
            for number, row in enumerate(own):
                ids[place, number, : len(row)] = torch.tensor(row, dtype=torch.long)
        starts = [len(text.ids) for text in texts]
        position = torch.tensor(starts)[:, None, None] + torch.arange(longest)
        layers = [_Shared(*layer) for layer in _side_by_side(texts)]
        states = self.model.base_model(
            input_ids=ids.flatten(0, 1).to(self.device),
            position_ids=position.expand_as(ids).flatten(0, 1).to(self.device),
            attention_mask=_mask(starts, width, longest, self.device),
            past_key_values=Cache(layers=list(layers)),
            use_cache=True,
        ).last_hidden_state.view(len(texts), width, longest, -1)
        new = torch.stack([layer.new for layer in layers])
        new = new.view(*new.shape[:2], len(texts), width, *new.shape[3:])
        for place, (text, own) in enumerate(zip(texts, rows, strict=True)):
            text.tips = [
                _Tip(row, new[:, :, place, number, :, : len(row)], states[place, number, : len(row)])
                for number, row in enumerate(own)
            ]


class _Shared(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer: those read before lie there once for all rows of a text, and are not added to."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self.new = keys

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """What the new tokens may look at; the new keys and values are laid aside."""
        self.new = torch.stack([key_states, value_states])
        return self._joined(self.keys, key_states), self._joined(self.values, value_states)

    @staticmethod
    def _joined(held: Tensor | None, new: Tensor) -> Tensor:
        if held is None or not held.shape[2]:
            return new
        texts, before = len(held), held.shape[2]
        rows, heads, tokens, size = new.shape
        joined = new.new_empty(texts, rows // texts, heads, before + tokens, size)
        joined[..., :before, :] = held[:, None]
        joined[..., before:, :] = new.view(texts, rows // texts, heads, tokens, size)
        return joined.flatten(0, 1)


def _nothing_read(model: Any) -> tuple[Tensor, Tensor] | None:
    """No keys, values and states, in the shapes of this model; none where its layers are not all of one kind."""
    if getattr(model, "_is_stateful", False) or model.config.model_type == "llama4_text":
        return None
    device = next(model.parameters()).device
    with torch.inference_mode():
        read = model.base_model(
            input_ids=torch.zeros((1, 1), dtype=torch.long, device=device),
            past_key_values=DynamicCache(),
            use_cache=True,
        )
        layers = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in _layers(read)]
        parts = [part for layer in layers for part in layer if part is not None]
        alike = len({part.shape for part in parts}) == 1
        if not alike or len(parts) != 2 * model.config.get_text_config().num_hidden_layers:
            return None
        held = torch.stack(parts).view(-1, 2, *parts[0].shape[1:])
        return held[..., :0, :], read.last_hidden_state[0, :0]


def _layers(read: Any) -> Sequence[Any]:
    return getattr(read.past_key_values, "layers", ())


def _settled(text: Text, rows: Sequence[list[int]]) -> list[int]:
    """Bring what was read to the beginning of all rows; what is still to be read of it comes back."""
    shared = min(common(rows), min(map(len, rows)) - 1)  # a state at the end of each row has to be computed
    text.cut(common([text.ids, rows[0][:shared]]))
    wanted = rows[0][len(text.ids) : shared]
    best, length = None, 0
    for tip in text.tips:
        if (found := common([tip.ids, wanted])) > length:
            best, length = tip, found
    if best is not None:
        text.go_on(best, length)
    ahead = rows[0][len(text.ids) : shared]
    return [] if text.ids and len(ahead) * len(rows) <= FEW else ahead


def _side_by_side(texts: Sequence[Text]) -> Tensor:
    """The keys and values of all texts, filled up on the left: (layers, 2, texts, heads, tokens, size)."""
    if len(texts) == 1:
        return texts[0].held[:, :, None]
    layers, two, heads, _, size = texts[0].held.shape
    longest = max(len(text.ids) for text in texts)
    # Zeros, since what stands there is multiplied with zero, and zero times infinity is not zero.
    held = texts[0].held.new_zeros(layers, two, len(texts), heads, longest, size)
    for place, text in enumerate(texts):
        held[:, :, place, :, longest - len(text.ids) :] = text.held
    return held


def _mask(starts: Sequence[int], width: int, longest: int, device: torch.device) -> Tensor | None:
    """1 for what is there, 0 for what only fills up; nothing where nothing fills up."""
    most = max(starts)
    if min(starts) == most:
        return None
    there = torch.arange(most + longest) >= torch.tensor([most - start for start in starts])[:, None]
    return there.long().repeat_interleave(width, 0).to(device)


@dataclass(frozen=True)
class NextTokens:
    """Log-probabilities of what may come after some states: of the tokens asked for, and of the likeliest."""

    own: list[float]
    top: list[list[int]]
    of_top: list[list[float]]


@torch.inference_mode()
def next_tokens(model: Any, states: Tensor, tokens: Sequence[int] | None = None, top: int = 0) -> NextTokens:
    """For each of the states, over the whole vocabulary and in float32; likeliest first."""
    size = model.config.get_text_config().vocab_size
    rows = max(1, LOGITS_AT_ONCE // size)
    asked = torch.tensor(tokens if tokens is not None else [0] * len(states), device=states.device)
    found = NextTokens([], [], [])
    for start in range(0, len(states), rows):
        logits = head_logits(model, states[start : start + rows])
        total = logits.logsumexp(1, keepdim=True)
        if tokens is not None:
            found.own.extend((logits.gather(1, asked[start : start + rows, None]) - total)[:, 0].tolist())
        if top:
            values, ids = logits.topk(min(top, logits.shape[1]))
            found.top.extend(ids.tolist())
            found.of_top.extend((values - total).tolist())
    return found
