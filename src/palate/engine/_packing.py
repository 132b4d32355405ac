"""Several groups of texts side by side in one sequence, without padding, and who may see whom in it.

All prefixes stand first, then all continuations, group by group. A prefix token sees its own prefix up to
itself. A continuation token sees its whole prefix and its own continuation up to itself; these two are
computed apart by flash attention over ragged sequences and joined exactly by their log-sum-exps: once every
text up to each token of itself, prefixes and continuations alike, and once continuations over their prefixes.
The prefix's keys and values are so read once for all continuations, and no pair of tokens is computed that
is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palate.engine._kernels import Attention, fused, kernels_for


@dataclass(frozen=True)
class Group:
    """Token ids of a prefix and of what may follow it."""

    prefix: Sequence[int]
    continuations: Sequence[Sequence[int]]

    @property
    def size(self) -> int:
        """How many distinct tokens there are to read."""
        return len(self.prefix) + sum(map(len, self.continuations))


@dataclass(frozen=True)
class Positions:
    """Where, in the hidden states of one pass, each continuation was read."""

    before: Tensor
    """Index of the state that predicts each continuation token, all continuations one after another."""
    tokens: Tensor
    """The continuation tokens themselves."""
    owner: Tensor
    """Which continuation each of them belongs to."""
    last: Tensor
    """Index of the last state of each continuation (of its prefix, if it is empty)."""
    count: int
    """How many continuations there are."""


@dataclass(frozen=True)
class Ragged:
    """Sequences of unequal length laid end to end: where each begins, and the longest of them."""

    starts: Tensor
    longest: int


def _moved(array: np.ndarray, device: torch.device) -> Tensor:
    """The array on the device. From pinned memory, since a copy from other memory waits for all work before it."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@dataclass(frozen=True)
class Pack:
    """One row of tokens for several groups, and where everything stands in it."""

    ids: Tensor
    position: Tensor
    prefix_tokens: int
    texts: Ragged
    """Every prefix, then every continuation."""
    prefixes: Ragged
    groups: Ragged
    """All continuations of one group together."""
    positions: Positions


def pack(groups: Sequence[Group], device: torch.device) -> Pack:
    """Lay groups out side by side."""
    prefixes = [len(group.prefix) for group in groups]
    follow = [[len(tokens) for tokens in group.continuations] for group in groups]
    lengths = [length for own in follow for length in own]
    total = sum(prefixes)
    texts = [*(group.prefix for group in groups), *(text for group in groups for text in group.continuations)]
    ids = np.fromiter(chain.from_iterable(texts), np.int64, total + sum(lengths))
    tokens = ids[total:]
    ends = np.cumsum(prefixes)
    position = [np.arange(length) for length in prefixes]
    before, last, at = [], [], total
    for end, start, own in zip(ends.tolist(), prefixes, follow, strict=True):
        for length in own:
            position.append(np.arange(start, start + length))
            if length:
                before.append(np.concatenate([[end - 1], np.arange(at, at + length - 1)]))
            at += length
            last.append(at - 1 if length else end - 1)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    predicted = np.concatenate([*before, np.zeros(0)])
    ragged = ([*prefixes, *lengths], prefixes, [sum(own) for own in follow])
    starts = [np.cumsum([0, *some]) for some in ragged]
    arrays = (ids, np.concatenate(position), predicted, tokens, owner, last, *starts)
    numbers = [np.asarray(array, np.int64) for array in arrays]
    # One copy: each costs as much as many numbers do.
    moved = torch.split(_moved(np.concatenate(numbers), device), [len(array) for array in numbers])
    begin = torch.split(torch.cat(moved[6:]).to(torch.int32), [len(some) for some in starts])
    alone, whole, together = (Ragged(at, max(some, default=0)) for at, some in zip(begin, ragged, strict=True))
    return Pack(
        ids=moved[0],
        position=moved[1],
        prefix_tokens=total,
        texts=alone,
        prefixes=whole,
        groups=together,
        positions=Positions(moved[2], moved[3], moved[4], moved[5], len(lengths)),
    )


_current: ContextVar[Pack | None] = ContextVar("the row that this thread reads", default=None)


@contextmanager
def reading(row: Pack) -> Iterator[None]:
    """Within this, the packed attention of every layer is that of this row."""
    token = _current.set(row)
    try:
        yield
    finally:
        _current.reset(token)


def _packed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The attention of one layer over the current row; shapes as transformers gives them."""
    row = _current.get()
    assert row is not None, "packed attention is used outside of a packed row"
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    n = row.prefix_tokens
    out, weight = _attend(q, k, v, row.texts, row.texts, True, scaling)
    if len(q) > n:
        across, weight_across = _attend(q[n:], k[:n], v[:n], row.groups, row.prefixes, False, scaling)
        _join(out[n:], across, weight[:, n:], weight_across)
    return out[None], None


def _join(out: Tensor, across: Tensor, weight: Tensor, weight_across: Tensor) -> None:
    """Put what was seen across to what was seen of the text itself, in place: one softmax over both."""
    kernels = kernels_for(out.device)
    if kernels is not None:
        kernels.join(out, across, weight, weight_across)
    else:
        out.lerp_(across, torch.sigmoid(weight_across - weight).transpose(0, 1)[..., None].to(out.dtype))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, queries: Ragged, keys: Ragged, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention within each of many ragged sequences, and its log-sum-exp (heads, tokens)."""
    if q.is_cuda:
        # What torch's own varlen_attn calls; that one takes fewer key heads than query heads only lately.
        found = torch.ops.aten._flash_attention_forward(
            q, k, v, queries.starts, keys.starts, queries.longest, keys.longest, 0.0, causal, False, scale=scale
        )
        return found[0], found[1]
    out, sums = torch.zeros_like(q), torch.full((q.shape[1], len(q)), -torch.inf)
    k, v = (states.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v))
    starts, others = queries.starts.tolist(), keys.starts.tolist()
    for (a, b), (c, d) in zip(pairwise(starts), pairwise(others), strict=True):
        if a < b and c < d:
            some = (states.transpose(0, 1)[None] for states in (q[a:b], k[c:d], v[c:d]))
            found, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*some, 0.0, causal, scale=scale)
            out[a:b], sums[:, a:b] = found[0].transpose(0, 1), weight[0]
    return out, sums


@contextmanager
def packed_attention(model: Any, attention: Attention = _packed_attention) -> Iterator[None]:
    """Within this, every layer of the model asks for packed attention, which needs no mask.

    What comes between the matrix products is done by kernels of our own where there are any.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    name = f"palate{attention.__name__}"
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, _no_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        with fused(model, attention):
            yield
    finally:
        model.set_attn_implementation(before)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


PACKED = {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "phi3"}
"""Families whose attention is plain softmax, each compared with the plain way in the tests. Others may add
sinks, biases or caps that a packed pass would lose without a word, so they take the slower way."""


def can_pack(model: Any) -> bool:
    """Whether flash attention computes what every layer of this model would."""
    parameter = next(model.parameters())
    if parameter.is_cuda and parameter.dtype not in (torch.bfloat16, torch.float16):
        return False
    return model.config.get_text_config().model_type in PACKED


def window(model: Any) -> int | None:
    """How far back layers look that do not see everything; longer texts cannot be packed."""
    config = model.config.get_text_config()
    found = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    return int(found) if found and (kinds is None or "sliding_attention" in kinds) else None
