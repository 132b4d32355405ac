"""Many continuations of many prompts with one causal language model in this process."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from palate.engine._decoder import Decoder, longest_supported
from palate.engine._decoding import Decoding, evened
from palate.engine._draw import Draw, row_keys
from palate.engine._kernels_decoder import decoder_for
from palate.engine._memory import out_of_memory

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
        """For each prompt, token ids with a seed of its own, so many continuations. Temperature 0 is greedy.

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
        draw = Draw(decoder.vocabulary, settings.temperature, settings.top_p, self._device)
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
        """The decoder holds copies of the weights in a layout of its own: made anew where the weights changed."""
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
    draw = Draw(logits.shape[-1], settings.temperature, settings.top_p, device)
    keys = torch.tensor(item.keys, device=device)
    rows: _Rows = [[] for _ in item.samples]
    live = list(range(len(item.samples)))
    for step in range(settings.most_tokens):
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
