"""A decoder for the Llama family, made for many continuations of one prompt.

It takes its weights from a transformers model and gives the same logits. What makes it quick: the keys and values
of a prompt are held and read once for all its continuations, weights are laid out for the matrix products of this
processor, and a step is a short list of operations, which on a GPU is recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from palate.engine._kernels import Kernels, kernels_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FAMILY = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
_ROTARY = {"default", "linear", "llama3", "yarn"}
"""The kinds of rotary embedding whose angles do not hang on the length of the text."""


def longest_supported(model: PreTrainedModel) -> int:
    """How many tokens, prompt and continuation, the decoder may hold for this model; 0 where it cannot run it."""
    config: Any = model.config
    rotary: Any = getattr(getattr(model, "model", None), "rotary_emb", None)
    plain = all(type(part) is nn.Linear for part in model.modules() if isinstance(part, nn.Linear))
    one_place = len({(part.device, part.dtype) for part in model.parameters()}) == 1
    if (
        type(model).__name__ not in _FAMILY
        or getattr(rotary, "rope_type", None) not in _ROTARY
        or config.hidden_act not in {"silu", "swish"}
        or not plain
        or not one_place
        or any(hasattr(part, "_hf_hook") for part in model.modules())  # weights that are moved in when needed
        or next(model.parameters()).dtype not in {torch.float32, torch.bfloat16, torch.float16}
        or next(model.parameters()).device.type not in {"cpu", "cuda"}
    ):
        return 0
    kinds = getattr(config, "layer_types", None)
    slides = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    window = getattr(config, "sliding_window", None)
    return int(window) if slides and window else 1 << 40


def head_size(model: PreTrainedModel) -> int:
    """How many numbers a head of the attention has."""
    config: Any = model.config
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


class _Layer:
    def __init__(self, layer: Any, fuse: bool) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.before, self.between = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self.query_norm = _norm(attention.q_norm) if hasattr(attention, "q_norm") else None
        self.key_norm = _norm(attention.k_norm) if hasattr(attention, "k_norm") else None
        self.into = Linear([attention.q_proj, attention.k_proj, attention.v_proj], fuse=fuse)
        self.out = Linear([attention.o_proj])
        self.down = Linear([mlp.down_proj])
        # oneDNN applies SiLU and multiplies while it writes a product down, which takes two of them; elsewhere one
        # product for both is quicker.
        joined = fuse and not self.down.packed
        self.gate = Linear([mlp.gate_proj, mlp.up_proj] if joined else [mlp.gate_proj])
        self.up = None if joined else Linear([mlp.up_proj])

    def feed_forward(self, hidden: Tensor) -> Tensor:
        x = self.between(hidden)
        if self.up is not None:
            return self.down.onto(self.up.onto(x, self.gate.activated(x), "mul"), hidden)
        gate, up = self.gate(x).chunk(2, -1)
        return self.down.onto(gated(gate, up), hidden)

    @property
    def products(self) -> list[Linear]:
        """Every matrix product of the layer with its weights."""
        return [part for part in (self.into, self.out, self.gate, self.up, self.down) if part is not None]


def _norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.variance_epsilon)


@dataclass
class Memory:
    """The keys and values of a group: each prompt's once, each continuation's own after it.

    Shapes, for each layer: prefix (2, prompts, heads, tokens, size), own (2, prompts, heads, samples, room, size),
    where heads are those of keys and values, and keys come first.
    """

    prefix: list[Tensor]
    own: list[Tensor]

    @property
    def room(self) -> int:
        """How many tokens of each continuation can be held."""
        return self.own[0].shape[4] if self.own else 0

    def make_room(self, samples: int, room: int) -> None:
        """Begin, or hold longer continuations."""
        for layer, like in enumerate(self.prefix):
            _, prompts, heads, _, size = like.shape
            new = like.new_zeros(2, prompts, heads, samples, room, size)
            if layer < len(self.own):
                new[:, :, :, :, : self.own[layer].shape[4]] = self.own[layer]
                self.own[layer] = new
            else:
                self.own.append(new)

    def keep(self, prompts: Tensor, samples: Tensor) -> None:
        """Only these prompts, and of each of them these samples (prompts, samples)."""
        for layer, held in enumerate(self.prefix):
            self.prefix[layer] = held[:, prompts]
        for layer, held in enumerate(self.own):
            # Indices that are not side by side put what they pick first: (prompts, samples, 2, heads, room, size).
            picked = held[:, prompts[:, None], :, samples]
            self.own[layer] = picked.permute(2, 0, 3, 1, 4, 5).contiguous()


class Decoder:
    """The weights of a model, and its two passes: over whole prompts, and one token further."""

    def __init__(self, model: PreTrainedModel, *, fuse: bool = True) -> None:
        config: Any = model.config
        base: Any = model.model
        head: Any = model.lm_head
        self._rotary = base.rotary_emb
        self._embedding = base.embed_tokens.weight.detach()
        self._layers = [_Layer(layer, fuse) for layer in base.layers]
        self._norm = _norm(base.norm)
        self._head = Linear([head])
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.size = head_size(model)
        self.vocabulary = len(head.weight)
        self.device, self.dtype = self._embedding.device, self._embedding.dtype
        self.bytes_a_token = 2 * len(self._layers) * self.key_heads * self.size * self.dtype.itemsize

    def angles(self, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the rotary embedding, (positions, size), the sines signed as they are used."""
        places = torch.arange(positions, device=self.device)[None]
        cosine, sine = self._rotary(self._embedding, places)
        half = self.size // 2
        return cosine[0], torch.cat([-sine[0, :, :half], sine[0, :, half:]], -1)

    def zeros(self, *shape: int) -> Tensor:
        """In the precision and place of the model."""
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def memory(self, prompts: int, longest: int) -> Memory:
        """Room for the keys and values of prompts that are still to be read."""
        # Zeros, since what stands on padding is multiplied with zero, and zero times infinity is not zero.
        return Memory([self.zeros(2, prompts, self.key_heads, longest, self.size) for _ in self._layers], [])

    def read(
        self, prompts: Sequence[Sequence[int]], memory: Memory, first: int, angles: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Read prompts, put their keys and values into the memory from `first` on; the logits after each."""
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        place = (slice(first, first + len(prompts)), slice(None), slice(longest))
        padded = [[*prompt, *([prompt[-1]] * (longest - len(prompt)))] for prompt in prompts]
        ids = torch.tensor(padded, device=self.device)
        cosine, sine = (table[:longest, None] for table in angles)
        hidden = functional.embedding(ids, self._embedding)
        group = self.heads // self.key_heads
        for index, layer in enumerate(self._layers):
            turned, values = self._turned(layer, hidden, cosine, sine)
            queries = turned[:, :, : self.heads].transpose(1, 2)
            keys, values = turned[:, :, self.heads :].transpose(1, 2), values.transpose(1, 2)
            memory.prefix[index][0][place] = keys
            memory.prefix[index][1][place] = values
            if group > 1:
                keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
            # Padding stands at the end, so no real token sees it.
            mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            hidden = layer.feed_forward(layer.out.onto(mixed.transpose(1, 2).flatten(2), hidden))
        last = torch.tensor(lengths, device=self.device) - 1
        return self._logits(hidden[torch.arange(len(prompts), device=self.device), last])

    def step(
        self, tokens: Tensor, memory: Memory, angles: tuple[Tensor, Tensor], place: int, mask: Tensor | None
    ) -> Tensor:
        """Read one token of each continuation, (prompts, samples); the logits after it, (rows, vocabulary).

        `angles` are those of each prompt's next position, (prompts, size). `place` is where in the continuation the
        token stands; what was written up to there is attended to, under the mask (prompts, 1, prefix + place + 1).
        """
        prompts, samples = tokens.shape
        group = self.heads // self.key_heads
        cosine, sine = (angle[:, None].expand(-1, samples, -1).reshape(-1, 1, self.size) for angle in angles)
        hidden = functional.embedding(tokens.flatten(), self._embedding)
        for index, layer in enumerate(self._layers):
            turned, values = self._turned(layer, hidden, cosine, sine)
            queries = hidden.new_empty(prompts, self.key_heads, samples, group, self.size)
            split = turned[:, : self.heads].view(prompts, samples, self.key_heads, group, self.size)
            torch.mul(split.transpose(1, 2), self.size**-0.5, out=queries)
            own_keys, own_values = memory.own[index]
            for held, heads in ((own_keys, turned[:, self.heads :]), (own_values, values)):
                held[:, :, :, place] = heads.view(prompts, samples, self.key_heads, self.size).transpose(1, 2)
            own = (own_keys[:, :, :, : place + 1], own_values[:, :, :, : place + 1])
            mixed = _attend(queries, memory.prefix[index], own, mask)
            hidden = layer.feed_forward(layer.out.onto(mixed, hidden))
        return self._logits(hidden)

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
        """The same in shapes that never change and in as few kernels as may be, for a GPU to record.

        `angles` are those of all positions and `lengths` those of the prompts; `place` lies on the device too.
        `padding` is what is added to the scores of the last columns of the prefix: (prompts, 1, columns). A GPU wants
        prefix and room to be multiples of 8 at least, else its matrix products are several times slower. With fewer
        `layers` than there are, nothing comes out that makes sense, but all that is needed has been loaded.
        """
        prompts, samples = tokens.shape
        later = torch.arange(memory.room, device=self.device) > place
        own = padding.new_zeros(later.shape).masked_fill_(later, -torch.inf)
        mask = torch.cat([padding, own.expand(prompts, 1, -1)], -1)
        # Queries (the heads that share a key next to each other), keys, values.
        group, heads = self.heads // self.key_heads, self.heads + 2 * self.key_heads
        cosine, sine = (table[lengths + place] for table in angles)
        first, second = self._turning((cosine, sine))
        hidden = functional.embedding(tokens.flatten(), self._embedding)
        for index, layer in enumerate(self._layers[:layers]):
            parts = self._parts(layer, hidden).view(prompts, samples, heads, 2, self.size // 2)
            turned = (parts[..., :1, :] * first).addcmul_(parts[..., 1:, :], second)
            new = turned[:, :, self.heads :].view(prompts, samples, 2, self.key_heads, 1, self.size)
            memory.own[index].index_copy_(4, place, new.permute(2, 0, 3, 1, 4, 5))
            queries = turned[:, :, : self.heads].view(prompts, samples, self.key_heads, group, self.size)
            queries = queries.transpose(1, 2).contiguous()
            mixed = _attend_in_place(queries, memory.prefix[index], memory.own[index], mask)
            hidden = layer.feed_forward(layer.out.onto(mixed, hidden))
        return self._logits(hidden)

    def _turning(self, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """What the first and the second half of a head go with to both halves: (prompts, 1, heads, 2, size / 2).

        Turning thus takes two passes and no copy with the halves swapped. Values go along and are not turned, since
        keys and values that lie side by side are put into the memory at once.
        """
        (cosine, cosine_again), (minus_sine, sine) = (angle.view(len(angle), 2, -1).unbind(1) for angle in angles)
        one, zero = torch.ones_like(cosine), torch.zeros_like(cosine)

        def every_head(turned: list[Tensor], still: list[Tensor]) -> Tensor:
            first = torch.stack(turned, 1)[:, None].expand(-1, self.heads + self.key_heads, -1, -1)
            rest = torch.stack(still, 1)[:, None].expand(-1, self.key_heads, -1, -1)
            return torch.cat([first, rest], 1)[:, None]

        return every_head([cosine, sine], [one, zero]), every_head([minus_sine, cosine_again], [zero, one])

    def _parts(self, layer: _Layer, hidden: Tensor) -> Tensor:
        """Queries, keys and values of all heads side by side: (..., heads, size)."""
        parts = layer.into(layer.before(hidden))
        parts = parts.view(*parts.shape[:-1], -1, self.size)
        if layer.query_norm is None or layer.key_norm is None:
            return parts
        sizes = (self.heads, self.key_heads, self.key_heads)
        queries, keys, values = torch.split_with_sizes(parts, sizes, -2)
        return torch.cat([layer.query_norm(queries), layer.key_norm(keys), values], -2)

    def _turned(self, layer: _Layer, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys side by side, turned by their position, and values: (..., heads, size)."""
        parts = self._parts(layer, hidden)
        both = parts[..., : self.heads + self.key_heads, :]
        turned = (both * cosine).addcmul_(both.roll(self.size // 2, -1), sine)
        return turned, parts[..., self.heads + self.key_heads :, :]

    def _logits(self, hidden: Tensor) -> Tensor:
        return self._head(self._norm(hidden))


def _attend(queries: Tensor, prefix: Tensor, own: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """Attention over the prompt and over the continuation as over one text: one softmax over both.

    All queries of a prompt's samples go into one product with its keys, which is why they need be held but once.
    """
    prompts, heads, samples, group, size = queries.shape
    together = queries.view(prompts * heads, samples * group, size)
    apart = queries.view(prompts * heads * samples, group, size)
    over_prefix = torch.bmm(together, prefix[0].flatten(0, 1).transpose(1, 2))
    over_own = torch.bmm(apart, own[0].flatten(0, 2).transpose(1, 2))
    scores = torch.cat([over_prefix, over_own.view(prompts * heads, samples * group, -1)], -1)
    if mask is not None:
        scores.view(prompts, heads * samples * group, -1).add_(mask)
    return _mix(scores.softmax(-1), queries.shape, prefix[1], own[1])


def _attend_in_place(queries: Tensor, prefix: Tensor, own: Tensor, mask: Tensor) -> Tensor:
    """The same where queries are not scaled yet: the products scale, and write where the softmax reads."""
    prompts, heads, samples, group, size = queries.shape
    shared, room = prefix.shape[3], own.shape[4]
    scale = size**-0.5
    scores = queries.new_empty(prompts * heads * samples, group, shared + room)
    together = scores.view(prompts * heads, samples * group, -1)
    prefix_keys, own_keys = prefix[0].flatten(0, 1).transpose(1, 2), own[0].flatten(0, 2).transpose(1, 2)
    # With a beta of 0 what stood there is not read.
    together[:, :, :shared].baddbmm_(queries.view(*together.shape[:2], size), prefix_keys, beta=0, alpha=scale)
    scores[:, :, shared:].baddbmm_(queries.view(*scores.shape[:2], size), own_keys, beta=0, alpha=scale)
    scores.view(prompts, -1, shared + room)[:, :, -mask.shape[-1] :].add_(mask)
    return _mix(together.softmax(-1), queries.shape, prefix[1], own[1])


def _mix(shares: Tensor, shape: Sequence[int], prefix: Tensor, own: Tensor) -> Tensor:
    """The values in their shares, a row for each continuation. `shape` is that of the queries."""
    prompts, heads, samples, group, size = shape
    shared = prefix.shape[2]
    mixed = torch.bmm(shares[:, :, :shared], prefix.flatten(0, 1)).view(-1, group, size)
    mixed.baddbmm_(shares[:, :, shared:].view(prompts * heads * samples, group, -1), own.flatten(0, 2))
    return mixed.view(prompts, heads, samples, -1).transpose(1, 2).reshape(prompts * samples, -1)


class Linear:
    """One or more linear layers of the same input as one matrix product."""

    def __init__(self, parts: Sequence[nn.Linear], *, fuse: bool = True) -> None:
        weights = [part.weight.detach() for part in parts]
        biases = [None if part.bias is None else part.bias.detach() for part in parts]
        whole = torch.cat(weights) if len(weights) > 1 and fuse else weights[0]
        self.inputs = whole.shape[1]
        self._weights = [whole] if fuse else weights
        self._bias = None
        if any(bias is not None for bias in biases):
            pairs = zip(weights, biases, strict=True)
            self._bias = torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in pairs])
        # oneDNN's own blocked layout: at 16 rows two and a half times as fast as x @ W.T in any plain layout.
        self.packed = whole.device.type == "cpu" and _can_pack(whole.dtype)
        if self.packed:
            self._weights = [torch.ops.mkldnn._reorder_linear_weight(whole, 16)]

    def __call__(self, x: Tensor) -> Tensor:
        """The product."""
        if self.packed:
            return _tensor(torch.ops.mkldnn._linear_pointwise(x, self._weights[0], self._bias, "none", [], ""))
        if len(self._weights) == 1:
            return functional.linear(x, self._weights[0], self._bias)
        product = torch.cat([x @ weight.t() for weight in self._weights], -1)
        return product if self._bias is None else product + self._bias

    def activated(self, x: Tensor) -> Tensor:
        """The product through SiLU."""
        if self.packed:
            return _tensor(torch.ops.mkldnn._linear_pointwise(x, self._weights[0], self._bias, "swish", [], ""))
        return functional.silu(self(x))

    def onto(self, x: Tensor, other: Tensor, how: str = "add") -> Tensor:
        """The product added to, or multiplied with, another tensor, which may be used up."""
        if self.packed:
            return _tensor(torch.ops.mkldnn._linear_pointwise(x, other, self._weights[0], self._bias, how))
        if how == "mul":
            return self(x).mul_(other)
        if self._bias is None and x.dim() == 2:
            return other.addmm_(x, self._weights[0].t())
        return self(x).add_(other)


def _tensor(value: Any) -> Tensor:
    """What torch's untyped operators return."""
    assert isinstance(value, Tensor)
    return value


def _can_pack(dtype: torch.dtype) -> bool:
    if not (torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    # Without instructions for it, bfloat16 is slower than float32 in any layout.
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


@dataclass(frozen=True)
class Norm:
    """The root-mean-square norm."""

    weight: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        kernels = kernels_for(x.device)
        if kernels is not None:
            return kernels.norm(x, self.weight, self.epsilon)
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU of the gate times the other."""
    kernels = kernels_for(gate.device)
    return functional.silu(gate).mul_(up) if kernels is None else kernels.gated(gate, up)


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
