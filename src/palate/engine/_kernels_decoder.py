"""The decoder on a GPU, with kernels of our own between its matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from palate.engine._decoder import Decoder, Memory, head_size
from palate.engine._kernels import Kernels, kernels_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def decoder_for(model: PreTrainedModel, *, fuse: bool) -> Decoder:
    """With kernels where there are any and they can do heads of this type and size, else without."""
    weight = next(model.parameters())
    kernels = kernels_for(weight.device)
    if kernels is not None and kernels.attends(weight.dtype, head_size(model)):
        return KernelDecoder(model, kernels, fuse=fuse)
    return Decoder(model, fuse=fuse)


class KernelDecoder(Decoder):
    """Gives what `Decoder` gives, in nine kernels a layer instead of nineteen."""

    def __init__(self, model: PreTrainedModel, kernels: Kernels, *, fuse: bool) -> None:
        super().__init__(model, fuse=fuse)
        self._kernels = kernels

    def read(
        self, prompts: Sequence[Sequence[int]], memory: Memory, first: int, angles: tuple[Tensor, Tensor]
    ) -> Tensor:
        """As `Decoder.read`. Nothing is taken to the device once the layers run: Python has to get ahead of them."""
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        ids = np.zeros((len(prompts), longest), np.int64)
        for row, prompt in zip(ids, prompts, strict=True):
            row[: len(prompt)] = prompt
        last = torch.tensor([longest * row + length - 1 for row, length in enumerate(lengths)], device=self.device)
        hidden = functional.embedding(torch.from_numpy(ids.ravel()).to(self.device), self._embedding)
        for index, layer in enumerate(self._layers):
            held = memory.prefix[index][:, first : first + len(prompts)]
            queries = self._kernels.turn(self._parts(layer, hidden), held, angles, longest)
            queries = queries.view(len(prompts), longest, self.heads, self.size).transpose(1, 2)
            keys, values = held[:, :, :, :longest]
            # Padding stands at the end, so no real token sees it.
            mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
            mixed = mixed.transpose(1, 2).reshape(len(hidden), -1)
            hidden = layer.feed_forward(layer.out.onto(mixed, hidden))
        return self._logits(hidden[last])

    def step_in_place(
        self,
        tokens: Tensor,
        memory: Memory,
        angles: tuple[Tensor, Tensor],
        lengths: Tensor,
        place: Tensor,
        padding: Tensor,
        layers: int | None = None,
    ) -> Tensor:
        """As `Decoder.step_in_place`. The padding is not looked at: kernels stop where a prompt ends."""
        hidden = functional.embedding(tokens.flatten(), self._embedding)
        for index, layer in enumerate(self._layers[:layers]):
            parts, prefix, own = self._parts(layer, hidden), memory.prefix[index], memory.own[index]
            mixed = self._kernels.attend(parts, prefix, own, angles, lengths, place)
            hidden = layer.feed_forward(layer.out.onto(mixed, hidden))
        return self._logits(hidden)
