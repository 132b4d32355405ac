"""Several groups of texts side by side in one sequence, and who may see whom in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

BLOCK = 128
"""Flex attention skips whole blocks of this many tokens."""


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


def row_length(used: int, budget: int) -> int:
    """The length of a row that holds so many tokens.

    Every new length compiles the attention kernel anew, so lengths come from a short list: the budget and
    what halving and three quarters of it give. A fuller list would waste less padding and more time.
    """
    length = budget
    while True:
        for part in (length // 2, 3 * length // 4):
            part = -(-part // BLOCK) * BLOCK
            if part >= used and part < length:
                length = part
                break
        else:
            return max(length, -(-used // BLOCK) * BLOCK)


def layout(groups: Sequence[Group], length: int) -> dict[str, np.ndarray]:
    """One row of tokens for several groups, and where everything stands in it."""
    ids, position = np.zeros(length, np.int64), np.zeros(length, np.int64)
    document, segment = np.full(length, -1, np.int32), np.zeros(length, np.int32)
    before, tokens, owner, last = [], [], [], []
    at, continuation, number = 0, 0, 1
    for which, group in enumerate(groups):
        start, size = at, len(group.prefix)
        ids[at : at + size] = group.prefix
        position[at : at + size] = np.arange(size)
        document[at : at + group.size] = which
        at += size
        for following in group.continuations:
            end = at + len(following)
            ids[at:end] = following
            position[at:end] = np.arange(size, size + len(following))
            segment[at:end] = number
            if len(following):
                before.append(np.concatenate([[start + size - 1], np.arange(at, end - 1)]))
                tokens.append(np.asarray(following, np.int64))
                owner.append(np.full(len(following), continuation))
            last.append(end - 1 if len(following) else start + size - 1)
            at, continuation, number = end, continuation + 1, number + 1
    empty = np.zeros(0, np.int64)
    return {
        "ids": ids,
        "position": position,
        "document": document,
        "segment": segment,
        "before": np.concatenate([empty, *before]).astype(np.int64),
        "tokens": np.concatenate([empty, *tokens]).astype(np.int64),
        "owner": np.concatenate([empty, *owner]).astype(np.int64),
        "last": np.asarray(last, np.int64),
    }


def block_masks(
    model: Any, where: dict[str, np.ndarray], document: Tensor, segment: Tensor, position: Tensor
) -> BlockMask | dict[str, BlockMask]:
    """Who sees whom: one mask, or one for each kind of layer where some layers see a window only.

    A token sees the tokens before it of its own prefix and of its own continuation. Which blocks hold any
    such pair is worked out here from their contents, since asking about every pair of tokens would take
    longer than the attention itself.
    """

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same = (document[query] == document[key]) & (query >= key) & (document[query] >= 0)
        return (same & ((segment[key] == 0) | (segment[key] == segment[query]))) | (query == key)

    def nearby(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return visible(batch, head, query, key) & (position[query] - position[key] < window)

    some, whole = _seen_blocks(where["document"], where["segment"])
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    window = getattr(model.config, "sliding_window", None) or len(document)
    full = _mask(some & ~whole, whole, visible, document.device)
    if kinds == {"full_attention"}:
        return full
    return {"full_attention": full, "sliding_attention": _mask(some, None, nearby, document.device)}


def _seen_blocks(document: np.ndarray, segment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each block of queries and of keys: may some pair be visible, and is every pair surely visible?"""
    documents, segments = document.reshape(-1, BLOCK), segment.reshape(-1, BLOCK)
    used, inside = documents >= 0, segments > 0
    far = np.iinfo(np.int32).max
    first = np.where(used, documents, far).min(1)
    last = np.where(used, documents, -1).max(1)
    first_segment = np.where(inside, segments, far).min(1)
    last_segment = np.where(inside, segments, -1).max(1)
    prefix = (used & ~inside).any(1)
    only_prefix = (used & ~inside).all(1) & (first == last)
    one_document = used.all(1) & (first == last)
    index = np.arange(len(documents))
    before = index[:, None] >= index[None, :]
    same = (first[:, None] <= last[None, :]) & (last[:, None] >= first[None, :])
    together = (first_segment[:, None] <= last_segment[None, :]) & (last_segment[:, None] >= first_segment[None, :])
    some = before & same & (prefix[None, :] | together) | np.eye(len(documents), dtype=bool)
    whole = (index[:, None] > index[None, :]) & one_document[:, None] & only_prefix[None, :]
    whole &= first[:, None] == first[None, :]
    return some, whole


def _mask(some: np.ndarray, whole: np.ndarray | None, rule: Any, device: torch.device) -> BlockMask:
    def listed(blocks: np.ndarray) -> tuple[Tensor, Tensor]:
        order = np.argsort(~blocks, axis=1, kind="stable").astype(np.int32)
        counts = blocks.sum(1).astype(np.int32)
        return torch.from_numpy(counts).to(device)[None, None], torch.from_numpy(order).to(device)[None, None]

    counts, indices = listed(some)
    full_counts, full_indices = listed(np.zeros_like(some) if whole is None else whole)
    return BlockMask.from_kv_blocks(
        counts, indices, full_counts, full_indices, BLOCK_SIZE=BLOCK, mask_mod=rule, compute_q_blocks=False
    )


_attention: Any = None


def _packed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    global _attention
    if _attention is None:
        _attention = torch.compile(flex_attention, dynamic=False) if query.is_cuda else flex_attention
    out = _attention(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


def use_packed_attention(model: Any) -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, flex_attention_mask

    AttentionInterface.register("palate_packed", _packed_attention)
    AttentionMaskInterface.register("palate_packed", flex_attention_mask)
    model.set_attn_implementation("palate_packed")


def can_pack(model: Any) -> bool:
    """Whether every layer is plain softmax attention, so that a mask says all there is to say."""
    if not getattr(model, "_supports_flex_attn", False) or getattr(model.config, "attn_logit_softcapping", None):
        return False
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if getattr(model.config, "sliding_window", None) and not getattr(model.config, "layer_types", None):
        return False  # a window in every layer, announced in the older way
    return kinds <= {"full_attention", "sliding_attention"}
