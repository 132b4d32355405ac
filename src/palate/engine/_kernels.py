"""Kernels of our own for NVIDIA GPUs, where Triton and a compiler are there to build them.

`kernels_for` says whether they are to be used; whoever calls them has a way in plain torch beside it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor


class Kernels:
    """Operations on tensors that lie on the current GPU."""

    def __init__(self, source: Any, *, early: bool) -> None:
        self._source = source
        self._early = early  # whether a kernel may be launched before the one before it has ended

    def norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """The root-mean-square norm over the last dimension."""
        x = x.contiguous()
        width = x.shape[-1]
        rows = x.numel() // width
        out = torch.empty_like(x)
        block = _power(width)
        together = max(1, 4096 // block) if rows > 4096 else 1  # few rows: as many programs as there are
        if rows:
            self._source.norm[(_blocks(rows, together),)](
                x, weight, out, rows, width, epsilon, together, block,
                num_warps=min(8, max(1, together * block // 1024)),
            )  # fmt: skip
        return out

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        """SiLU of the gate times the other, whose rows may each be part of a longer one."""
        out = gate.new_empty(gate.shape)
        width = gate.shape[-1]
        block = min(_power(width), 2048)
        if out.numel():
            self._source.gated[(out.numel() // width, _blocks(width, block))](
                gate, up, out, width, gate.stride(-2), up.stride(-2), block, num_warps=8
            )
        return out

    def join(self, out: Tensor, across: Tensor, out_weight: Tensor, across_weight: Tensor) -> None:
        """Put a second part of a softmax, (tokens, heads, size), to the first; log-sum-exps are (heads, tokens)."""
        tokens, heads, size = out.shape
        rows = tokens * heads
        self._source.join[(_blocks(rows, 32),)](
            out, across, out_weight, across_weight, rows, out_weight.stride(0), across_weight.stride(0),
            heads, size, 32, _power(size), num_warps=4,
        )  # fmt: skip

    @staticmethod
    def attends(dtype: torch.dtype, size: int) -> bool:
        """Whether `attend` can do heads of this type and size."""
        return dtype in (torch.bfloat16, torch.float16) and size in (16, 32, 64, 128)

    def attend(
        self, parts: Tensor, prefix: Tensor, own: Tensor, angles: tuple[Tensor, Tensor], lengths: Tensor, place: Tensor
    ) -> Tensor:
        """The attention of one new token of each continuation, whose key and value are put into `own` at `place`.

        `parts` are queries, keys and values side by side, (rows, heads, size), as the projection leaves them; prefix
        and own as in `Memory`; `lengths` are those of the prompts. A row of heads for each continuation.
        """
        _, prompts, key_heads, shared, size = prefix.shape
        samples, room = own.shape[3:5]
        group = parts.shape[1] // key_heads - 2
        pairs, scale, chunk = prompts * key_heads, size**-0.5 * math.log2(math.e), 384
        partial = torch.empty(_blocks(shared, chunk), pairs, samples * group, size, device=parts.device)
        weight = torch.empty(partial.shape[:-1], device=parts.device)
        stages = 3 if size <= 64 else 2  # what the smaller GPUs have shared memory for
        taken, rows = _shared_out(samples, group, 64)
        self._source.look_back[(pairs, _blocks(samples, taken), len(partial))](
            parts, prefix, *angles, lengths, place, partial, weight, prompts, samples, shared, scale,
            key_heads, group, size, taken, rows, 64, chunk, self._early, num_warps=4, num_stages=stages,
        )  # fmt: skip
        out = parts.new_empty(len(parts), group * key_heads * size)
        # One warp a program: so little is to be multiplied that several would mostly wait for each other.
        taken, rows = _shared_out(samples, group, 8)
        self._source.attend[(pairs, _blocks(samples, taken))](
            parts, own, *angles, lengths, place, partial, weight, out, prompts, samples, room, scale,
            key_heads, group, size, taken, rows, 32, chunk, self._early,
            num_warps=max(1, rows // 16), num_stages=stages, **({"launch_pdl": True} if self._early else {}),
        )  # fmt: skip
        return out

    def rotated(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Heads (1, tokens, heads, size) turned by what transformers gives for their positions (1, tokens, size)."""
        out = torch.empty_like(x)
        heads, size = x.shape[-2:]
        rows = x.numel() // size
        self._source.rotate[(_blocks(rows, 32),)](x, out, cosine, sine, rows, heads, size, 32, _power(size))
        return out

    def turn(self, parts: Tensor, held: Tensor, angles: tuple[Tensor, Tensor], longest: int) -> Tensor:
        """The queries of whole prompts, padded to the longest, turned by their position: (rows, heads, size).

        Keys and values, which stand behind the queries in `parts`, go into `held`: the prefix of these prompts.
        """
        _, _, key_heads, shared, size = held.shape
        tokens, every, _ = parts.shape
        heads = every - 2 * key_heads
        queries = parts.new_empty(tokens, heads, size)
        self._source.turn[(_blocks(tokens * every, 32),)](
            parts, queries, held, *angles, tokens * every, longest, shared, held.stride(0), heads, key_heads, size, 32
        )
        return queries

    def draw(self, logits: Tensor, tokens: Tensor, keys: Tensor, step: Tensor, temperature: float) -> Tensor:
        """For each row of logits the token that wins with its noise, see `GumbelSampler`."""
        out = keys.new_empty(len(logits))
        self._source.draw[(len(logits),)](
            logits.contiguous(), tokens, keys, step, out, logits.shape[1], 1 / temperature, 2048, num_warps=8
        )
        return out


def _blocks(number: int, block: int) -> int:
    return -(-number // block)


def _power(number: int) -> int:
    """The next power of two: a block is of no other size."""
    return 1 << (number - 1).bit_length()


def kernels_for(device: torch.device) -> Kernels | None:
    """The kernels, where they can be built for this device and it is the one that they would be launched on."""
    if device.type != "cuda" or device.index not in (None, torch.cuda.current_device()):
        return None
    return _built(torch.cuda.current_device())


def _shared_out(samples: int, group: int, rows: int) -> tuple[int, int]:
    """How many samples a program takes, evenly, so that their queries fill these rows; and the rows it needs."""
    programs = _blocks(samples, max(1, rows // group))
    taken = _blocks(samples, programs)
    return taken, max(16, _power(taken * group))  # matrix products take 16 rows at least


@cache
def _built(index: int) -> Kernels | None:
    """Tried on a small case, since a compiler can be missing or not know the GPU."""
    if torch.version.hip or torch.cuda.get_device_capability(index) < (8, 0):
        return None
    x = torch.linspace(-3, 3, 64, device=torch.device("cuda", index)).view(2, 32)
    try:
        source = importlib.import_module("palate.engine._kernels_triton")
        early = torch.cuda.get_device_capability(index) >= (9, 0) and hasattr(source.tl.extra.cuda, "gdc_wait")
        kernels = Kernels(source, early=early)
        found = kernels.gated(x, x)
    except Exception:  # whatever Triton or the compiler raise, there is another way
        return None
    return kernels if torch.allclose(found, functional.silu(x) * x, atol=1e-4) else None


_NORMS = {"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "Phi3RMSNorm"}
_FEED_FORWARD = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP"}
_ATTENTION = {"LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention"}


Attention = Callable[..., tuple[Tensor, None]]
"""Attention as transformers calls it."""


@contextmanager
def fused(model: Any, attention: Attention) -> Iterator[None]:
    """Within this, norms, rotations and gates of known families take a kernel each instead of up to eight.

    Attention modules that are among them ask `attention` directly. What somebody else has put in a module's place
    stays there.
    """
    first = next(model.parameters())
    kernels = kernels_for(first.device)
    one_type = all(part.dtype == first.dtype for part in model.base_model.parameters())
    changed: list[Any] = []
    try:
        if kernels is not None and one_type:
            for module in model.modules():
                forward = _forward(module, kernels, attention)
                if forward is not None and "forward" not in vars(module):
                    module.forward = forward
                    changed.append(module)
        yield
    finally:
        for module in changed:
            del module.forward


def _forward(module: Any, kernels: Kernels, attention: Attention) -> Callable[..., Any] | None:
    kind = type(module).__name__
    if kind in _NORMS:
        return partial(kernels.norm, weight=module.weight, epsilon=module.variance_epsilon)
    if kind in _FEED_FORWARD and module.config.hidden_act in {"silu", "swish"}:
        return partial(_feed_forward, module, kernels)
    if kind in _ATTENTION:
        return partial(_attend, module, kernels, attention)
    return None


def _feed_forward(module: Any, kernels: Kernels, x: Tensor) -> Tensor:
    out: Tensor = module.down_proj(kernels.gated(module.gate_proj(x), module.up_proj(x)))
    return out


def _attend(
    module: Any, kernels: Kernels, attention: Attention, hidden_states: Tensor, position_embeddings: Any, **_: Any
) -> tuple[Tensor, None]:
    shape = (*hidden_states.shape[:-1], -1, module.head_dim)
    projections = (module.q_proj, module.k_proj, module.v_proj)
    queries, keys, values = (project(hidden_states).view(shape) for project in projections)
    if hasattr(module, "q_norm"):
        queries, keys = module.q_norm(queries), module.k_norm(keys)
    queries, keys = (kernels.rotated(part, *position_embeddings) for part in (queries, keys))
    parts = (part.transpose(1, 2) for part in (queries, keys, values))
    mixed, _none = attention(module, *parts, None, scaling=module.scaling)
    return module.o_proj(mixed.flatten(2)), None
