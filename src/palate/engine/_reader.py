"""Reading texts that grow: what was read before is kept, and only what is new is read.

A text is followed by giving, again and again, whole rows of tokens that may come of it. The longest beginning that
all rows share with what was read before is not read again; what they share beyond it is read once; and then each
row's own tokens, side by side. Where the tokens of a text change when it goes on, as they do when one model reads
what another wrote, what was read falls back to where they part.

Where attention is plain softmax, all new tokens of a text are laid end to end and see, where it stands, what was read
before, and of the new tokens those of their own row up to themselves. Any other model gets each row as a sequence of
its own, for which what was read before is laid out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from palate.engine._kv_cache import Branches, KVCache, common_prefix
from palate.engine._packing import PACKED, packed_attention, window
from palate.engine._scorer import LOGITS_AT_ONCE, head_logits
from palate.engine._torch import steady_attention

FEW = 16
"""So many tokens more, in all rows together, cost less than a pass of their own."""

Rows = Sequence[list[int]]
"""Tokens that may come of one text: whole rows, or what each has beyond what was read."""


class Reader:
    """A decoder that goes on with texts it has read. Texts read together do not see each other."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.device: torch.device = next(model.parameters()).device
        self.budget = 2**15 if self.device.type == "cuda" else 2**12
        """New tokens of all rows in one pass; or, where what was read is laid out for each, 32 times as many in all."""
        self._packs = model.config.get_text_config().model_type in PACKED
        self._window = window(model)
        self._empty = _nothing_read(model)

    @property
    def able(self) -> bool:
        """Whether what this model has read can be kept and gone on from; a running state, for one, cannot."""
        return self._empty is not None

    def begin(self, count: int) -> KVCache:
        """So many texts of which nothing was read yet."""
        assert self._empty is not None
        return KVCache(count, *self._empty)

    @torch.inference_mode()
    def read(self, texts: KVCache, rows: Mapping[int, Rows]) -> None:
        """Go on with texts, by their place, to their rows, each of at least two tokens.

        Then a text has what its rows share, of each all but its last token at most, and its branches are the rest.
        """
        shared = {
            place: own[0][: min(common_prefix(min(own), max(own)), min(map(len, own)) - 1)]
            for place, own in rows.items()
        }
        texts.settle(shared)
        ahead = {place: ids[len(texts.ids[place]) :] for place, ids in shared.items()}
        behind = {
            place: [more]
            for place, more in ahead.items()
            if more and (not texts.ids[place] or len(more) * len(rows[place]) > FEW)
        }
        self._pass(texts, behind)
        texts.settle({place: shared[place] for place in behind})
        self._pass(texts, {place: [row[len(texts.ids[place]) :] for row in own] for place, own in rows.items()})

    def _pass(self, texts: KVCache, rows: Mapping[int, Rows]) -> None:
        texts.bring_forward(list(rows))
        longest = max((len(texts.ids[place]) + len(row) for place, own in rows.items() for row in own), default=0)
        packs = self._packs and (self._window is None or longest <= self._window)
        for places in self._batches(texts, rows, packs):
            self._read(texts, {place: rows[place] for place in places}, packs)

    def _batches(self, texts: KVCache, rows: Mapping[int, Rows], packs: bool) -> Iterator[list[int]]:
        """Places whose rows in memory follow each other, as many as the budget allows."""
        some: list[int] = []
        before = width = new = 0
        for place in texts.places[: len(rows)]:
            own = rows[place]
            sizes = (len(texts.ids[place]), len(own), max(map(len, own)))
            before, width, new = map(max, zip((before, width, new), sizes, strict=True))
            tokens = width * new if packs else width * (before + new) / 32
            if some and (len(some) + 1) * tokens > self.budget:
                yield some
                some, (before, width, new) = [], sizes
            some.append(place)
        if some:
            yield some

    def _read(self, texts: KVCache, rows: Mapping[int, Rows], packs: bool) -> None:
        """One pass. Rows are filled up after their end, and texts with rows of nothing."""
        width, longest = max(map(len, rows.values())), max(len(row) for own in rows.values() for row in own)
        lengths = [len(texts.ids[place]) for place in rows]
        start, new = max(lengths), width * longest
        held, states = texts.memory(texts.row(next(iter(rows))), len(rows), start + new)
        filled = [
            [[*row, *[0] * (longest - len(row))] for row in own] + [[0] * longest] * (width - len(own))
            for own in rows.values()
        ]
        counts = [[len(row) for row in own] + [0] * (width - len(own)) for own in rows.values()]
        new_ids, own_tokens, before = (torch.tensor(part).to(self.device) for part in (filled, counts, lengths))
        batch = NewTokens(new_ids, own_tokens, before, held, start)
        with steady_attention():
            found = read_end_to_end(self.model, batch) if packs else read_laid_out(self.model, batch)
        states[:, start : start + new] = found
        for place, own in rows.items():
            texts.branches[place] = Branches(own, start, longest)


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


@dataclass(frozen=True)
class NextTokens:
    """Log-probabilities of what may come after some states: of the tokens asked for, and of the likeliest."""

    own: list[list[float]]
    top: list[list[int]]
    of_top: list[list[float]]


@torch.inference_mode()
def next_tokens(model: Any, states: Tensor, tokens: Sequence[Sequence[int]] = (), top: int = 0) -> NextTokens:
    """For each of the states, over the whole vocabulary and in float32; likeliest first."""
    size = model.config.get_text_config().vocab_size
    rows = max(1, LOGITS_AT_ONCE // size)
    most = max(map(len, tokens), default=0)
    asked = torch.tensor([[*some, *[0] * (most - len(some))] for some in tokens], dtype=torch.long).to(states.device)
    found = NextTokens([], [], [])
    for start in range(0, len(states), rows):
        logits = head_logits(model, states[start : start + rows])
        total = logits.logsumexp(1, keepdim=True)
        if tokens:
            found.own.extend((logits.gather(1, asked[start : start + rows]) - total).tolist())
        if top:
            values, ids = logits.topk(min(top, logits.shape[1]))
            found.top.extend(ids.tolist())
            found.of_top.extend((values - total).tolist())
    return found


@dataclass(frozen=True)
class NewTokens:
    """New tokens (texts, rows, tokens), filled up with zeros, for texts of which some tokens were read before."""

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


def read_end_to_end(model: Any, batch: NewTokens) -> Tensor:
    """The last states, (texts, rows x tokens, width), of a model whose attention is plain softmax over everything."""
    texts, rows, tokens = batch.new.shape
    group = model.config.get_text_config().num_attention_heads // batch.held.shape[3]
    mask = None if rows == 1 and not batch.start else _mask(batch, group)
    token = _current.set(_Sight(batch.held, batch.start, mask))
    try:
        with packed_attention(model, _cached_attention):
            states: Tensor = model.base_model(
                input_ids=batch.new.view(1, -1), position_ids=batch.position.reshape(1, -1), use_cache=False
            ).last_hidden_state
    finally:
        _current.reset(token)
    return states.reshape(texts, rows * tokens, -1)


def _mask(batch: NewTokens, group: int) -> Tensor:
    """Nought for what a new token sees, minus infinity for the rest."""
    _texts, rows, tokens = batch.new.shape
    column = torch.arange(batch.held.shape[4], device=batch.new.device)
    itself = batch.start + torch.arange(rows * tokens, device=batch.new.device)[:, None]
    of_its_row = (column >= itself - (itself - batch.start) % tokens) & (column <= itself)
    seen = (column < batch.lengths[:, None, None]) | of_its_row
    mask = torch.zeros(seen.shape, dtype=batch.held.dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
    return mask.repeat(1, group, 1)[:, None]


def _cached_attention(
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


def read_laid_out(model: Any, batch: NewTokens) -> Tensor:
    """The same of any model: what was read stands on the left, filled up before it, for each row separately."""
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


def _side_by_side(batch: NewTokens, lengths: list[int]) -> Tensor:
    """What was read of all texts, filled up on the left."""
    if min(lengths) == batch.start:
        return batch.held[..., : batch.start, :]
    held = torch.zeros_like(batch.held[..., : batch.start, :])
    for text, length in enumerate(lengths):
        held[:, :, text, :, batch.start - length :] = batch.held[:, :, text, :, :length]
    return held


def _what_is_there(batch: NewTokens, lengths: list[int]) -> Tensor | None:
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
