"""One pass over new tokens of texts that grow; their keys and values go into the texts' memory.

Where attention is plain softmax, all new tokens of a text are laid end to end and see, where it stands, what was read
before, and of the new tokens those of their own row up to themselves. Any other model gets each row as a sequence of
its own, for which what was read before is laid out again.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache, DynamicLayer

from palate.engine._packing import packed_attention


@dataclass(frozen=True)
class Batch:
    """New tokens (texts, rows, tokens), filled up with zeros, for texts of which so many tokens were read before."""

    new: Tensor
    own: Tensor
    """How many of a row's tokens are its own and do not fill it up: (texts, rows)."""
    lengths: Tensor
    held: Tensor
    """The keys and values of these texts: (layers, 2, texts, heads, columns, size)."""
    start: int
    """The column from which on the new ones go: as many as the longest text has."""

    @property
    def position(self) -> Tensor:
        """Of each new token: (texts, rows, tokens). What fills up stays where its row ends, within the context."""
        along = torch.arange(self.new.shape[2], device=self.new.device)
        return self.lengths[:, None, None] + torch.minimum(along, (self.own[..., None] - 1).clamp(min=0))


@dataclass(frozen=True)
class _Sight:
    held: Tensor
    start: int
    mask: Tensor | None
    """What is added to the attention of every head of a group, (texts, 1, group x new tokens, columns); none where
    each text is one row of which nothing was read."""


_current: ContextVar[_Sight] = ContextVar("what the tokens of this thread's pass see")


def read_end_to_end(model: Any, batch: Batch) -> Tensor:
    """The last states, (texts, rows x tokens, width), of a model whose attention is plain softmax over everything."""
    texts, rows, tokens = batch.new.shape
    group = model.config.get_text_config().num_attention_heads // batch.held.shape[3]
    mask = None if rows == 1 and not batch.start else _mask(batch, group)
    token = _current.set(_Sight(batch.held, batch.start, mask))
    try:
        with packed_attention(model, _growing_attention):
            states: Tensor = model.base_model(
                input_ids=batch.new.view(1, -1), position_ids=batch.position.reshape(1, -1), use_cache=False
            ).last_hidden_state
    finally:
        _current.reset(token)
    return states.reshape(texts, rows * tokens, -1)


def _mask(batch: Batch, group: int) -> Tensor:
    """Nought for what a new token sees, minus infinity for the rest."""
    _texts, rows, tokens = batch.new.shape
    column = torch.arange(batch.held.shape[4], device=batch.new.device)
    itself = batch.start + torch.arange(rows * tokens, device=batch.new.device)[:, None]
    of_its_row = (column >= itself - (itself - batch.start) % tokens) & (column <= itself)
    seen = (column < batch.lengths[:, None, None]) | of_its_row
    mask = torch.zeros(seen.shape, dtype=batch.held.dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
    return mask.repeat(1, group, 1)[:, None]


def _growing_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The attention of one layer; shapes as transformers gives them, with all texts in one sequence."""
    sight = _current.get()
    keys, values = sight.held[module.layer_idx]
    texts, heads, _columns, size = keys.shape
    queries, new_keys, new_values = (
        part[0].view(part.shape[1], texts, -1, size).transpose(0, 1) for part in (query, key, value)
    )
    tokens = queries.shape[2]
    keys[:, :, sight.start : sight.start + tokens] = new_keys
    values[:, :, sight.start : sight.start + tokens] = new_values
    if sight.mask is None:
        group = queries.shape[1] // heads
        own_keys, own_values = (part.repeat_interleave(group, dim=1) for part in (new_keys, new_values))
        seen = scaled_dot_product_attention(queries, own_keys, own_values, is_causal=True, scale=scaling)
    else:
        grouped = queries.reshape(texts, heads, -1, size)  # what looks at the same keys, as one
        seen = scaled_dot_product_attention(grouped, keys, values, attn_mask=sight.mask, scale=scaling)
        seen = seen.reshape(queries.shape)
    return seen.transpose(1, 2).reshape(1, texts * tokens, -1, size), None


def read_laid_out(model: Any, batch: Batch) -> Tensor:
    """The same of any model: what was read stands on the left, filled up before it, for each row anew."""
    texts, rows, tokens = batch.new.shape
    lengths = batch.lengths.tolist()
    layers = [_Shared(*layer) for layer in _side_by_side(batch, lengths)]
    states: Tensor = model.base_model(
        input_ids=batch.new.flatten(0, 1),
        position_ids=batch.position.flatten(0, 1),
        attention_mask=_what_is_there(batch, lengths),
        past_key_values=Cache(layers=list(layers)),
        use_cache=True,
    ).last_hidden_state
    new = torch.stack([layer.new for layer in layers])
    new = new.view(*new.shape[:2], texts, rows, *new.shape[3:]).transpose(3, 4).flatten(4, 5)
    batch.held[..., batch.start : batch.start + rows * tokens, :] = new
    return states.reshape(texts, rows * tokens, -1)


def _side_by_side(batch: Batch, lengths: list[int]) -> Tensor:
    """What was read of all texts, filled up on the left."""
    if min(lengths) == batch.start:
        return batch.held[..., : batch.start, :]
    held = torch.zeros_like(batch.held[..., : batch.start, :])
    for text, length in enumerate(lengths):
        held[:, :, text, :, batch.start - length :] = batch.held[:, :, text, :, :length]
    return held


def _what_is_there(batch: Batch, lengths: list[int]) -> Tensor | None:
    """1 for what is there, 0 for what only fills up; nothing where nothing fills up."""
    if min(lengths) == batch.start:
        return None
    _, rows, tokens = batch.new.shape
    column = torch.arange(batch.start + tokens, device=batch.new.device)
    return (column >= batch.start - batch.lengths[:, None]).long().repeat_interleave(rows, 0)


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
