"""Kernels of our own in the place of some modules of a transformers model, for as long as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from palate.engine._kernels import Kernels, kernels_for

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
