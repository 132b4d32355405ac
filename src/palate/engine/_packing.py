"""Several groups of texts side by side in one sequence, without padding, and who may see whom in it.

All prefixes stand first, then all continuations, group by group. A prefix token sees its own prefix up to
itself. A continuation token sees its whole prefix and its own continuation up to itself; these two are
computed apart by flash attention over ragged sequences and joined exactly by their log-sum-exps. The
prefix's keys and values are so read once for all continuations, and no pair of tokens is computed that
is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor


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

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Ragged:
        """From the lengths alone."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
        return cls(_moved(starts, device), max(lengths, default=0))


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
    prefixes: Ragged
    groups: Ragged
    """All continuations of one group together."""
    continuations: Ragged
    positions: Positions


def pack(groups: Sequence[Group], device: torch.device) -> Pack:
    """Lay groups out side by side."""
    prefixes = [len(group.prefix) for group in groups]
    follow = [[len(tokens) for tokens in group.continuations] for group in groups]
    lengths = [length for own in follow for length in own]
    total = sum(prefixes)
    ids = [token for group in groups for token in group.prefix]
    tokens = [token for group in groups for following in group.continuations for token in following]
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
    arrays = (ids + tokens, np.concatenate(position), predicted, tokens, owner, last)
    numbers = [np.asarray(array, np.int64) for array in arrays]
    moved = torch.split(_moved(np.concatenate(numbers), device), [len(array) for array in numbers])
    return Pack(
        ids=moved[0],
        position=moved[1],
        prefix_tokens=total,
        prefixes=Ragged.of(prefixes, device),
        groups=Ragged.of([sum(own) for own in follow], device),
        continuations=Ragged.of(lengths, device),
        positions=Positions(moved[2], moved[3], moved[4], moved[5], len(lengths)),
    )


_current: Pack | None = None


@contextmanager
def reading(row: Pack) -> Iterator[None]:
    """Within this, the packed attention of every layer is that of this row."""
    global _current
    _current = row
    try:
        yield
    finally:
        _current = None


def _packed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The attention of one layer over the current row; shapes as transformers gives them."""
    row = _current
    assert row is not None, "packed attention is used outside of a packed row"
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    n = row.prefix_tokens
    out = torch.empty_like(q)
    out[:n], _lse = _attend(q[:n], k[:n], v[:n], row.prefixes, row.prefixes, True, scaling)
    if len(q) > n:
        across, weight_across = _attend(q[n:], k[:n], v[:n], row.groups, row.prefixes, False, scaling)
        own, weight_own = _attend(q[n:], k[n:], v[n:], row.continuations, row.continuations, True, scaling)
        share = torch.sigmoid(weight_across - weight_own).transpose(0, 1)[..., None]
        torch.lerp(own, across, share.to(own.dtype), out=out[n:])
    return out[None], None


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
    outs, sums = [], []
    k, v = (states.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v))
    starts, others = queries.starts.tolist(), keys.starts.tolist()
    for (a, b), (c, d) in zip(pairwise(starts), pairwise(others), strict=True):
        scores = torch.einsum("qhd,khd->hqk", q[a:b], k[c:d]) * scale
        if causal:
            scores = scores.masked_fill(torch.ones(b - a, d - c).triu(1).bool(), -torch.inf)
        outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[c:d]))
        sums.append(scores.logsumexp(-1))
    return torch.cat(outs), torch.cat(sums, dim=1)


@contextmanager
def packed_attention(model: Any) -> Iterator[None]:
    """Within this, every layer of the model asks for packed attention, which needs no mask."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register("palate_packed", _packed_attention)
    AttentionMaskInterface.register("palate_packed", _no_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("palate_packed")
    try:
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
