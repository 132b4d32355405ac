"""One group of prompts and their continuations on the decoder, from the first token to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from palate.engine._attention import steady_attention
from palate.engine._decoder import Decoder
from palate.engine._draw import Draw

_ROOM = 128
"""Continuations are given room for so many tokens at a time: more would be attended to in vain, and with less a
step would have to be recorded more often."""

_EVEN = 64
"""On a GPU what is held is filled up to a multiple of so many tokens: matrices whose rows do not start at even
addresses are multiplied several times slower."""


def evened(tokens: int) -> int:
    """How many tokens of room so many take on a GPU."""
    return -(-tokens // _EVEN) * _EVEN


class Decoding:
    """Rows are (prompt, sample) pairs. Those that have ended leave once they are half of all.

    With `record`, a step has the same shapes every time and is recorded as a CUDA graph: launching its hundreds of
    small kernels from Python would take many times longer than running them.
    """

    def __init__(
        self,
        decoder: Decoder,
        draw: Draw,
        prompts: Sequence[Sequence[int]],
        keys: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        end_ids: frozenset[int],
        pad_id: int,
        record: bool,
        static: bool = False,
        begun: Sequence[Tensor] | None = None,
    ) -> None:
        self._forced = 0
        if begun is not None:  # all but the last token was read: that one is the first that is written, and not drawn
            self._forced, most_tokens = 1, most_tokens + 1
            self._first = torch.tensor([prompt[-1] for prompt in prompts], device=decoder.device)
            prompts = [prompt[:-1] for prompt in prompts]
        self._begun = begun
        self._decoder, self._draw, self._prompts = decoder, draw, prompts
        self._most_tokens = most_tokens
        self._record, self._static = record, static or record
        self._replay: Callable[[], None] | None = None
        device = decoder.device
        self._counts = [len(row) for row in keys]
        samples = max(self._counts)
        self._keys = torch.tensor([[*row, *[0] * (samples - len(row))] for row in keys], device=device)
        self._ends = torch.tensor(sorted(end_ids), dtype=torch.int64, device=device)
        # What is not there has ended already: prompts with fewer samples than others.
        self._ended = torch.arange(samples, device=device) >= torch.tensor(self._counts, device=device)[:, None]
        self._written = torch.full((*self._keys.shape, most_tokens), pad_id, device=device)
        self._rows = torch.arange(self._keys.numel()).view(self._keys.shape)
        self._result = torch.full((self._keys.numel(), most_tokens), pad_id)
        self._lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self._longest = max(len(prompt) for prompt in prompts)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._angles = decoder.angles(self._longest + most_tokens)
        self._memory = decoder.memory(len(prompts), evened(self._longest) if self._static else self._longest)
        self._padding = self._padding_mask()

    def run(self) -> list[list[list[int]]]:
        """For each prompt the tokens of its samples; what comes after an end token is to be ignored."""
        samples = self._keys.shape[1]
        if self._begun is not None:
            self._go_on(self._begun)
        else:
            first = self._read_prompts().repeat_interleave(samples, 0)
            self._written[:, :, 0] = self._draw(first, self._keys.flatten(), self._place).view(self._keys.shape)
            del first
        looks_every = 16 if self._decoder.device.type == "cuda" else 1  # a look at the tokens waits for the GPU
        for step in range(1, self._most_tokens):
            if step % looks_every == 0 and len(self._ends):
                recent = self._written[:, :, step - looks_every : step]
                self._ended |= torch.isin(recent, self._ends).any(-1)
                if not self._let_go():
                    break
            if step > self._memory.room:
                room = min(step + _ROOM - 1, self._most_tokens - 1)
                self._memory.make_room(self._keys.shape[1], evened(room) if self._static else room)
                self._replay = None
            if self._static:
                self._static_step()
            else:
                self._plain_step(step)
        self._put_aside()
        texts = self._result.view(len(self._prompts), samples, -1).tolist()
        return [[row[self._forced :] for row in rows[:count]] for rows, count in zip(texts, self._counts, strict=True)]

    def _go_on(self, begun: Sequence[Tensor]) -> None:
        """From keys and values that were computed elsewhere, (layers, 2, heads, tokens, size) of each prompt."""
        for place, held in enumerate(begun):
            for layer, part in enumerate(held):
                self._memory.prefix[layer][:, place, :, : part.shape[2]] = part
        self._written[:, :, 0] = self._first[:, None]

    def _read_prompts(self) -> Tensor:
        with steady_attention():
            return torch.cat(
                [
                    self._decoder.read(self._prompts[first:last], self._memory, first, self._angles)
                    for first, last in self._readings()
                ]
            )

    def _readings(self) -> Iterator[tuple[int, int]]:
        """As many prompts at once as keep the processor busy, and no more, since reading takes memory."""
        tokens = 32_768 if self._decoder.device.type == "cuda" else 1_024
        several = max(1, tokens // self._longest)
        for first in range(0, len(self._prompts), several):
            yield first, first + several

    def _padding_mask(self) -> Tensor | None:
        """What is added to the scores of prompts' tokens; where shapes never change, only from some token on."""
        shortest = min(len(prompt) for prompt in self._prompts)
        if not self._static and shortest == self._longest:
            return None
        span = (shortest // _EVEN * _EVEN, evened(self._longest)) if self._static else (0, self._longest)
        beyond = torch.arange(*span, device=self._decoder.device) >= self._lengths[:, None]
        return self._decoder.zeros(len(beyond), 1, span[1] - span[0]).masked_fill_(beyond[:, None], -torch.inf)

    def _plain_step(self, step: int) -> None:
        angles = (self._angles[0][self._lengths + step - 1], self._angles[1][self._lengths + step - 1])
        mask = self._padding
        if mask is not None:
            mask = torch.cat([mask, mask.new_zeros(len(mask), 1, step)], -1)
        logits = self._decoder.step(self._written[:, :, step - 1], self._memory, angles, step - 1, mask)
        self._place.fill_(step - self._forced)
        self._written[:, :, step] = self._draw(logits, self._keys.flatten(), self._place).view(self._keys.shape)

    def _static_step(self) -> None:
        if self._replay is not None:
            self._replay()
        elif not self._record:
            self._step_in_place()
        else:
            self._replay = self._record_step()

    def _record_step(self) -> Callable[[], None]:
        """Record a step and take it. One layer first, as it is: what is loaded at first use cannot be recorded."""
        aside: torch.cuda.Stream = torch.cuda.Stream(self._decoder.device)  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(aside):
            self._next_tokens(layers=1)
            # Not `with torch.cuda.graph(...)`: it empties torch's memory cache and collects garbage, every time.
            graph.capture_begin()
            try:
                self._step_in_place()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(aside)
        graph.replay()
        return graph.replay

    def _step_in_place(self) -> None:
        """One step whose every number lies on the device, the place of the token too."""
        drawn = self._next_tokens()
        self._place.add_(1)
        self._written.index_copy_(2, self._place, drawn.view(*self._keys.shape, 1))

    def _next_tokens(self, layers: int | None = None) -> Tensor:
        assert self._padding is not None
        tokens = self._written.index_select(2, self._place)[:, :, 0]
        held = (self._memory, self._angles, self._lengths, self._place, self._padding)
        logits = self._decoder.step_in_place(tokens, *held, layers=layers)
        return self._draw(logits, self._keys.flatten(), self._place + (1 - self._forced))

    def _let_go(self) -> bool:
        """Drop rows that have ended, once that halves the batch; whether any are left."""
        ended = self._ended.cpu()
        prompts = torch.nonzero(~ended.all(1)).flatten()
        if not len(prompts):
            return False
        samples = int((~ended).sum(1).max())
        if len(prompts) * samples * 2 > ended.numel():
            return True
        self._put_aside()
        # Of each prompt those that go on come first; what fills up the row has ended before.
        kept = ended[prompts].to(torch.int8).argsort(dim=1, stable=True)[:, :samples]
        self._rows = self._rows[prompts[:, None], kept]
        device = self._decoder.device
        prompts, kept = prompts.to(device), kept.to(device)
        self._memory.keep(prompts, kept)
        self._keys, self._ended = self._keys[prompts[:, None], kept], self._ended[prompts[:, None], kept]
        self._written = self._written[prompts[:, None], kept]
        self._lengths = self._lengths[prompts]
        self._padding = None if self._padding is None else self._padding[prompts]
        self._replay = None
        return True

    def _put_aside(self) -> None:
        self._result[self._rows.flatten()] = self._written.flatten(0, 1).cpu()
