"""Reading many candidates after one long prefix, each distinct token once.

The unit of work is a group: a prefix and N continuations of it. Whole groups are packed side by side without
padding (see `_packing.py`), and the model computes what it would for each candidate alone. Where a model's
attention cannot be packed, the prefix is read first and its keys and values serve all continuations. Encoders that
look both ways cannot share a prefix; their sequences are batched by like length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palate.engine._packing import Group, Positions, can_pack, pack, packed_attention, reading, window
from palate.engine._torch import in_halves, steady_attention

LOGITS_AT_ONCE = 2**27
"""How many logits are held at a time: half a gigabyte in float32."""

Finish = Callable[[Tensor, Positions], Tensor]
"""From the hidden states of a pass (tokens, width) to one number for each continuation in it."""


class Scorer:
    """Runs a decoder over groups and finishes each pass with a function of its hidden states."""

    def __init__(self, model: Any, *, budget: int | None = None, packs: bool | None = None) -> None:
        self.model = model.eval()
        self.device: torch.device = next(model.parameters()).device
        self.packs = (packs is None or packs) and can_pack(model)
        """Whether groups are packed: by default, where the model's attention allows it."""
        self.budget = budget or (32_768 if self.device.type == "cuda" else 4_096)
        """Tokens in one pass; halved when memory runs out, and remembered."""
        self._shares = not getattr(model, "_is_stateful", False) and model.config.model_type != "llama4_text"
        """Whether a prefix can be kept and gone on from; models with a running state cannot."""

    def run(self, groups: Sequence[Group], finish: Finish) -> list[list[float]]:
        """For each group one number for each continuation."""
        if self.packs and not self._beyond_window(groups):
            with packed_attention(self.model):
                return self._run(groups, finish, packs=True)
        return self._run(groups, finish, packs=False)

    def _run(self, groups: Sequence[Group], finish: Finish, *, packs: bool) -> list[list[float]]:
        answers: list[Tensor | None] = [None] * len(groups)

        def read(batch: Sequence[int]) -> list[tuple[int, Tensor]]:
            with torch.inference_mode(), steady_attention():
                if packs:
                    found = self._packed([groups[index] for index in batch], finish)
                else:
                    found = [self._cached(groups[index], finish) for index in batch]
            return list(zip(batch, found, strict=True))

        for batch in reversed(list(self._batches(groups, packs))):
            for part in in_halves(batch, len(batch), read, self._halve_budget):
                for index, numbers in part:
                    answers[index] = numbers
        return _to_lists([answer for answer in answers if answer is not None], groups)

    def _halve_budget(self) -> None:
        self.budget //= 2

    def _beyond_window(self, groups: Sequence[Group]) -> bool:
        most = window(self.model)
        longest = (len(group.prefix) + max(map(len, group.continuations), default=0) for group in groups)
        return most is not None and any(length > most for length in longest)

    def _batches(self, groups: Sequence[Group], packs: bool) -> Iterator[list[int]]:
        """First fit, longest first: rows of the token budget with little left over."""
        rows: list[list[int]] = []
        room: list[int] = []
        for index in sorted(range(len(groups)), key=lambda index: -groups[index].size):
            size = groups[index].size
            fitting = next((row for row, left in enumerate(room) if left >= size), None) if packs else None
            if fitting is None:
                rows.append([])
                room.append(self.budget)
                fitting = len(rows) - 1
            rows[fitting].append(index)
            room[fitting] -= size
        yield from rows

    def _packed(self, groups: Sequence[Group], finish: Finish) -> list[Tensor]:
        """All groups in one sequence."""
        row = pack(groups, self.device)
        with reading(row):
            hidden = self.model.base_model(
                input_ids=row.ids[None], position_ids=row.position[None], use_cache=False
            ).last_hidden_state[0]
        return list(torch.split(finish(hidden, row.positions), [len(group.continuations) for group in groups]))

    def _cached(self, group: Group, finish: Finish) -> Tensor:
        """One group: the prefix once, then its continuations beside each other."""
        decoder = self.model.base_model
        prefix = torch.tensor([list(group.prefix)], device=self.device)
        if not any(len(tokens) for tokens in group.continuations):
            hidden = decoder(input_ids=prefix, use_cache=False).last_hidden_state[0]
            last = torch.full((len(group.continuations),), len(group.prefix) - 1, device=self.device)
            nothing = torch.zeros(0, dtype=torch.long, device=self.device)
            return finish(hidden, Positions(nothing, nothing, nothing, last, len(group.continuations)))
        if not self._shares:
            return torch.cat([self._alone(group.prefix, tokens, finish) for tokens in group.continuations])
        read = decoder(input_ids=prefix, past_key_values=_new_cache(), use_cache=True)
        hidden = [read.last_hidden_state[0]]
        parts: list[Positions] = []
        offset = len(group.prefix)
        order = sorted(range(len(group.continuations)), key=lambda index: len(group.continuations[index]))
        for some in _chunks(order, [len(tokens) for tokens in group.continuations], len(group.prefix), self.budget):
            states, positions = self._continue(group, some, read.past_key_values, offset)
            hidden.append(states)
            parts.append(positions)
            offset += len(states)
        joined = _join(parts, len(group.continuations))
        return finish(torch.cat(hidden), joined)

    def _alone(self, prefix: Sequence[int], tokens: Sequence[int], finish: Finish) -> Tensor:
        """One continuation after its own reading of the prefix: slow, and right for any decoder."""
        ids = self._longs([*prefix, *tokens])
        hidden = self.model.base_model(input_ids=ids[None], use_cache=False).last_hidden_state[0]
        start = len(prefix) - 1
        before = torch.arange(start, start + len(tokens), device=self.device)
        last = self._longs([start + len(tokens)])
        return finish(hidden, Positions(before, self._longs(tokens), torch.zeros_like(before), last, 1))

    def _continue(self, group: Group, some: Sequence[int], cache: Any, offset: int) -> tuple[Tensor, Positions]:
        """Continuations of like length in one batch after the shared prefix."""
        start = len(group.prefix)
        longest = max(1, max(len(group.continuations[index]) for index in some))
        ids = torch.zeros((len(some), longest), dtype=torch.long)
        for row, index in enumerate(some):
            tokens = group.continuations[index]
            ids[row, : len(tokens)] = torch.tensor(list(tokens), dtype=torch.long)
        shared = _repeated(cache, len(some))
        states = self.model.base_model(
            input_ids=ids.to(self.device),
            position_ids=torch.arange(start, start + longest, device=self.device)[None].expand(len(some), -1),
            past_key_values=shared,
            use_cache=True,
        ).last_hidden_state.flatten(0, 1)
        before, tokens_read, owner, last = [], [], [], []
        for row, index in enumerate(some):
            length = len(group.continuations[index])
            first = offset + row * longest
            before += ([start - 1] if length else []) + list(range(first, first + length - 1))
            tokens_read += list(group.continuations[index])
            owner += [index] * length
            last.append(first + length - 1 if length else start - 1)
        positions = Positions(
            self._longs(before),
            self._longs(tokens_read),
            self._longs(owner),
            self._longs([*zip(some, last, strict=True)]).reshape(-1, 2),
            len(some),
        )
        return states, positions

    def _longs(self, numbers: Sequence[object]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.device)


def _join(parts: Sequence[Positions], count: int) -> Positions:
    last = torch.zeros(count, dtype=torch.long, device=parts[0].last.device)
    for part in parts:
        last[part.last[:, 0]] = part.last[:, 1]
    return Positions(
        torch.cat([part.before for part in parts]),
        torch.cat([part.tokens for part in parts]),
        torch.cat([part.owner for part in parts]),
        last,
        count,
    )


def _chunks(order: Sequence[int], lengths: Sequence[int], prefix: int, budget: int) -> Iterator[list[int]]:
    """Continuations of like length, as many as their keys and the prefix's leave room for."""
    some: list[int] = []
    for index in order:
        if some and (len(some) + 1) * (prefix + lengths[index]) > 16 * budget:
            yield some
            some = []
        some.append(index)
    yield some


def _repeated(cache: Any, times: int) -> Any:
    """The prefix's keys and values for several continuations, without copying them where it can be helped."""
    shared = _new_cache()
    for layer, held in enumerate(cache.layers):
        keys = held.keys.expand(times, -1, -1, -1)
        values = held.values.expand(times, -1, -1, -1)
        shared.update(keys, values, layer)
    return shared


def _new_cache() -> Any:
    """A cache that keeps every key, also for layers that look at a window only: the mask sees to those."""
    from transformers import DynamicCache

    return DynamicCache()


def _to_lists(answers: Sequence[Tensor], groups: Sequence[Group]) -> list[list[float]]:
    """One transfer for everything: nothing per row crosses from the device."""
    if not answers:
        return []
    numbers = torch.cat([answer.float() for answer in answers]).tolist()
    ends = np.cumsum([len(group.continuations) for group in groups])
    return [numbers[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def likelihood_finish(model: Any) -> Finish:
    """Sum of the log-probabilities of each continuation's tokens."""

    def finish(hidden: Tensor, at: Positions) -> Tensor:
        totals = torch.zeros(at.count, dtype=torch.float32, device=hidden.device)
        rows = max(1, LOGITS_AT_ONCE // model.config.get_text_config().vocab_size)
        for start in range(0, len(at.before), rows):
            piece = slice(start, start + rows)
            logits = head_logits(model, hidden[at.before[piece]])
            found = logits.gather(1, at.tokens[piece, None])[:, 0] - logits.logsumexp(1)
            totals.index_add_(0, at.owner[piece], found)
        return totals

    return finish


def classifier_finish(head: Callable[[Tensor], Tensor], label: int) -> Finish:
    """One logit of a classifier's head at the last token, in float32."""

    def finish(hidden: Tensor, at: Positions) -> Tensor:
        return head(hidden[at.last].float())[:, label]

    return finish


def read_both_ways(model: Any, groups: Sequence[Group], label: int, pad: int) -> list[list[float]]:
    """Encoders: whole sequences of like length in batches, padded on the right; one transfer at the end."""
    rows = [[*group.prefix, *tokens] for group in groups for tokens in group.continuations]
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    found = torch.zeros(len(rows), device=device)
    budget, start = 16_384, 0
    while start < len(order):
        longest = max(1, len(rows[order[start]]))
        some = order[start : start + max(1, budget // longest)]
        ids = torch.full((len(some), longest), pad, dtype=torch.long)
        mask = torch.zeros((len(some), longest), dtype=torch.long)
        for row, index in enumerate(some):
            ids[row, : len(rows[index])] = torch.tensor(rows[index], dtype=torch.long)
            mask[row, : len(rows[index])] = 1
        with torch.inference_mode(), steady_attention():
            logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
        found[torch.tensor(some, device=device)] = logits[:, label].float()
        start += len(some)
    numbers = iter(found.tolist())
    return [[next(numbers) for _ in group.continuations] for group in groups]


def head_logits(model: Any, hidden: Tensor) -> Tensor:
    """Next-token logits in float32, with what some families do to them at the end."""
    logits: Tensor = model.get_output_embeddings()(hidden).float()
    config = model.config.get_text_config()
    if getattr(config, "logit_scale", None):
        logits = logits * config.logit_scale
    if getattr(config, "logits_scaling", None):
        logits = logits / config.logits_scaling
    if getattr(config, "final_logit_softcapping", None):
        cap = config.final_logit_softcapping
        logits = torch.tanh(logits / cap) * cap
    return logits
