"""The same slopes from sketches of the texts' own gradients: every text is read once, however many rewards there are.

The slope of a text along a gradient is a product of gradients: w of y = sum over x of A(x) <grad log pi(x), grad log
pi(y)> / n. So the products between texts are all that is needed, and a product survives a random projection: each
matrix of gradients G becomes P G Q', with random signs in P and Q. The product of two such sketches is the product of
the gradients in the mean, with an error that falls with their size. (Johnson and Lindenstrauss 1984; Park et al. 2023,
"TRAK", for gradients of texts.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from palate.downstream.ppo._policy_model import PolicyModel
from palate.downstream.ppo._ppo import log_probabilities
from palate.downstream.ppo._training import Training
from palate.downstream.reach._gradient import TOO_MUCH, ReadText
from palate.engine import steady_attention
from palate.records import PalateError
from palate.stats import Floats


class SketchedGradient:
    """Stands in for `PolicyGradient`; the weights are never moved."""

    def __init__(self, policy: PolicyModel, texts: Sequence[ReadText], temperature: float, size: int) -> None:
        policy.begin(Training(algorithm="rloo", temperature=temperature).resolved(policy.device), seed=0)
        self.policy, self.texts = policy, texts
        self._projections = {
            name: tuple(_projection(f"{name} {side}", length, size) for side, length in enumerate(weights.shape))
            for name, weights in policy.learned().items()
            if weights.ndim == 2
        }
        self._sketches: Tensor | None = None

    def slopes(
        self, source: Sequence[int], advantages: Floats, target: Sequence[int], tell: Callable[[float], None]
    ) -> Floats:
        """How fast log pi of the target texts rises along the gradient of the source texts, about."""
        if self._sketches is None:
            self._sketches = self._read(tell)
        gradient = self._sketches[list(source)].T @ torch.from_numpy(advantages / len(source)).float()
        slopes: Floats = (self._sketches[list(target)] @ gradient).double().numpy()
        return slopes

    def _read(self, tell: Callable[[float], None]) -> Tensor:
        """(texts, numbers of a sketch)."""
        rows: Tensor | None = None
        for place, text in enumerate(self.texts):
            try:
                sketch = self._sketch(text)
            except torch.OutOfMemoryError as error:
                raise PalateError(TOO_MUCH.format(length=len(text.prompt) + len(text.response))) from error
            rows = torch.empty(len(self.texts), len(sketch)) if rows is None else rows
            rows[place] = sketch
            tell((place + 1) / len(self.texts))
        return torch.empty(0, 0) if rows is None else rows

    def _sketch(self, text: ReadText) -> Tensor:
        batch = self.policy.texts([(text.prompt, text.response)])
        for weights in self.policy.parameters:
            weights.grad = None
        with steady_attention():
            self.policy.measure(self.policy.read(batch), batch, log_probabilities).sum().backward()  # type: ignore[no-untyped-call]
        parts = []
        for name, weights in zip(self.policy.learned(), self.policy.parameters, strict=True):
            if weights.grad is not None:
                parts.append(self._projected(name, weights.grad).flatten().cpu())
                weights.grad = None
        return torch.cat(parts)

    def _projected(self, name: str, gradient: Tensor) -> Tensor:
        """Rows and columns that are many become few. What is no matrix is small, and kept."""
        left, right = self._projections.get(name, (None, None))
        if left is not None:
            gradient = left.to(gradient.device) @ gradient
        return gradient if right is None else gradient @ right.to(gradient.device).T


def _projection(name: str, length: int, size: int) -> Tensor | None:
    """Random signs, the same for the same name; nothing where there is nothing to shorten."""
    if length <= size:
        return None
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    signs = np.random.default_rng(seed).integers(0, 2, (size, length), dtype=np.int8) * 2 - 1
    return torch.from_numpy(signs).float() / sqrt(size)
