"""Many continuations of many prompts with one causal language model in this process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from palate.engine._decoder import Decoder, decoder_for, longest_supported
from palate.engine._gumbel import GumbelSampler, row_keys
from palate.engine._meter import portion, steps
from palate.engine._torch import out_of_memory, steady_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Sampled:
    """One continuation: its tokens, the end token left out, and whether the model ended it by itself."""

    ids: list[int]
    finished: bool
    end: int | None = None
    """The end token that was drawn, for those who need to know how likely it was."""


@dataclass(frozen=True)
class _Settings:
    most_tokens: int
    temperature: float
    top_p: float


@dataclass(frozen=True)
class _Work:
    """Some samples of one prompt."""

    index: int
    prompt: Sequence[int]
    seed: int
    samples: range
    begun: Tensor | None = None
    """Keys and values of all tokens but the last, where they are known."""

    @property
    def keys(self) -> list[int]:
        return row_keys(self.prompt, self.seed, self.samples)


_Rows = list[list[int]]
"""The tokens of each sample, with the end token and what came after it."""


class Sampler:
    """Draws continuations, each of which depends on its prompt, its seed, its number and the settings alone.

    Not on the other prompts, on how many samples are asked for, or on their order. One reservation: a matrix
    product of another shape adds up in another order, so where two tokens are level to the last digits (about 1 in
    100,000 draws in float32, more in bfloat16) the batch can still tip the choice. Draws are from float32 logits.

    A model of the Llama family runs on palate's own decoder, any other on transformers' forward pass. Weights that
    were changed in place, as training does, are noticed at the next call. `end_ids` may be empty.
    """

    def __init__(self, model: PreTrainedModel, end_ids: set[int], pad_id: int, *, record: bool = True) -> None:
        self._model = model
        self._end_ids = frozenset(end_ids)
        self._pad_id = pad_id
        self._longest = longest_supported(model)
        self._device = next(model.parameters()).device
        self._record = record and self._device.type == "cuda"
        self._decoder: Decoder | None = None
        self._seen: list[tuple[int, int]] = []
        self._rows_at_once = 1024 if self._device.type == "cuda" else 64
        self._bytes_at_once = 0

    @torch.inference_mode()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        most_tokens: int,
        temperature: float,
        top_p: float,
        seeds: Sequence[int],
        begun: Sequence[Tensor] | None = None,
    ) -> list[list[Sampled]]:
        """For each prompt, token ids with a seed of its own, `samples` continuations. Temperature 0 is greedy.

        `begun` are keys and values of every prompt but its last token, (layers, 2, heads, tokens, size); where our own
        decoder runs, prompts need not be read again then.
        """
        if not all(len(prompt) for prompt in prompts):
            raise ValueError("a prompt needs at least one token")
        settings = _Settings(most_tokens, temperature, top_p)
        known = begun if begun is not None else [None] * len(prompts)
        triples = enumerate(zip(prompts, seeds, known, strict=True))
        work = [_Work(index, prompt, seed, range(samples), held) for index, (prompt, seed, held) in triples]
        done = [[Sampled([], False)] * samples for _ in prompts]
        if most_tokens < 1 or samples < 1:
            return done
        fast = [item for item in work if len(item.prompt) + most_tokens <= self._longest]
        slow = [item for item in work if len(item.prompt) + most_tokens > self._longest]
        for results in (self._quickly(fast, settings), self._plainly(slow, settings)):
            for item, rows in results:
                done[item.index][item.samples.start : item.samples.stop] = [self._text(row) for row in rows]
        return done

    def _quickly(self, work: list[_Work], settings: _Settings) -> Iterator[tuple[_Work, _Rows]]:
        """On our own decoder, prompts of like length together."""
        if not work:
            return
        decoder = self._current_decoder()
        rows_in_all, drawn = sum(len(item.samples) for item in work), 0
        draw = GumbelSampler(decoder.vocabulary, settings.temperature, settings.top_p, self._device)
        waiting = work
        while waiting:
            group, waiting = self._next_group(waiting, settings.most_tokens, decoder.bytes_a_token)
            begun = [item.begun for item in group if item.begun is not None]
            full = False
            try:
                decoding = Decoding(
                    decoder,
                    draw,
                    [item.prompt for item in group],
                    [item.keys for item in group],
                    most_tokens=settings.most_tokens,
                    end_ids=self._end_ids,
                    pad_id=self._pad_id,
                    record=self._record,
                    begun=begun or None,
                )
                with portion(drawn / rows_in_all, sum(len(item.samples) for item in group) / rows_in_all):
                    rows = decoding.run()
            except RuntimeError as error:
                smallest = len(group) == 1 and len(group[0].samples) == 1
                if smallest or not out_of_memory(error):
                    raise
                full = True
            if full:  # out here, since an error in hand keeps alive what filled the memory
                if self._device.type == "cuda":
                    torch.cuda.empty_cache()  # what learning left behind is of no use to a step that is recorded
                self._bytes_at_once //= 2
                self._rows_at_once = max(1, sum(len(item.samples) for item in group) // 2)
                waiting = [*group, *waiting]
                continue
            drawn += sum(len(item.samples) for item in group)
            yield from zip(group, rows, strict=True)

    def _next_group(self, waiting: list[_Work], most_tokens: int, token: int) -> tuple[list[_Work], list[_Work]]:
        """Longest first, so that little is padding and a group that is too large is met at once."""
        pieces = sorted(_pieces(waiting, self._rows_at_once), key=lambda item: -len(item.prompt))
        longest, count, widest = len(pieces[0].prompt), 0, 0
        if self._record:
            longest, most_tokens = evened(longest), evened(most_tokens)
        for item in pieces:
            widest = max(widest, len(item.samples))
            held = (count + 1) * (longest + widest * most_tokens) * token
            if count and ((count + 1) * widest > self._rows_at_once or held > self._bytes_at_once):
                break
            count += 1
        return pieces[:count], pieces[count:]

    def _plainly(self, work: list[_Work], settings: _Settings) -> Iterator[tuple[_Work, _Rows]]:
        """With transformers' own forward pass, one prompt at a time."""
        if not work:
            return
        training = self._model.training
        self._model.train(False)
        try:
            for item in work:
                for part in _pieces([item], self._rows_at_once):
                    yield part, _with_transformers(self._model, part, settings, self._end_ids)
        finally:
            self._model.train(training)

    def _current_decoder(self) -> Decoder:
        """The decoder holds copies of the weights in a layout of its own: made again where the weights changed."""
        parameters = list(self._model.parameters())
        seen = [(part.data_ptr(), 0 if part.is_inference() else part._version) for part in parameters]
        if self._decoder is None or seen != self._seen:
            self._decoder = None
            weights = sum(part.numel() * part.element_size() for part in parameters)
            free = torch.cuda.mem_get_info(self._device)[0] if self._device.type == "cuda" else 8 << 30
            self._decoder = decoder_for(self._model, fuse=self._device.type == "cpu" or weights * 4 < free)
            self._seen = seen
            self._bytes_at_once = self._bytes_at_once or free // 4
        return self._decoder

    def _text(self, row: list[int]) -> Sampled:
        length = min((row.index(token) for token in self._end_ids if token in row), default=None)
        return Sampled(row, False) if length is None else Sampled(row[:length], True, row[length])


def _pieces(work: Iterable[_Work], rows: int) -> Iterator[_Work]:
    for item in work:
        for start in range(item.samples.start, item.samples.stop, rows):
            yield replace(item, samples=range(start, min(start + rows, item.samples.stop)))


def _with_transformers(model: PreTrainedModel, item: _Work, settings: _Settings, end_ids: frozenset[int]) -> _Rows:
    """The prompt is read once and its cache repeated; samples that have ended leave the batch."""
    run: Any = model
    device = next(model.parameters()).device
    last_only = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(run.forward).parameters else {}
    answer = run(input_ids=torch.tensor([item.prompt], device=device), use_cache=True, **last_only)
    logits: Tensor = answer.logits[:, -1].float().repeat(len(item.samples), 1)
    cache = answer.past_key_values
    cache.batch_repeat_interleave(len(item.samples))
    draw = GumbelSampler(logits.shape[-1], settings.temperature, settings.top_p, device)
    keys = torch.tensor(item.keys, device=device)
    rows: _Rows = [[] for _ in item.samples]
    live = list(range(len(item.samples)))
    for step in steps(settings.most_tokens):
        tokens = draw(logits, keys, torch.tensor(step, device=device))
        drawn: list[int] = tokens.tolist()
        for row, token in zip(live, drawn, strict=True):
            rows[row].append(token)
        kept = [place for place, token in enumerate(drawn) if token not in end_ids]
        if not kept or step + 1 == settings.most_tokens:
            break
        if len(kept) < len(live):
            places = torch.tensor(kept, device=device)
            cache.batch_select_indices(places)
            tokens, keys, live = tokens[places], keys[places], [live[place] for place in kept]
        logits = run(input_ids=tokens[:, None], past_key_values=cache, use_cache=True).logits[:, -1].float()
    return rows


_ROOM = 128
"""Continuations are given room for this number of tokens at a time: more would be attended to in vain, and with less a
step would have to be recorded more often."""

_EVEN = 64
"""On a GPU what is held is filled up to a multiple of this number of tokens: matrices whose rows do not start at even
addresses are multiplied several times slower."""


def evened(tokens: int) -> int:
    """KV cache size on a GPU for this many tokens."""
    return -(-tokens // _EVEN) * _EVEN


class Decoding:
    """Rows are (prompt, sample) pairs. Those that have ended leave once they are half of all.

    With `record`, a step has the same shapes every time and is recorded as a CUDA graph: launching its hundreds of
    small kernels from Python would take many times longer than running them.
    """

    def __init__(
        self,
        decoder: Decoder,
        draw: GumbelSampler,
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
        for before in steps(self._most_tokens - 1):
            step = before + 1
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
