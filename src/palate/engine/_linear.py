"""Linear layers and norms in the layout that this processor multiplies fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from palate.engine._kernels import kernels_for


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
