"""A policy in the middle of somebody else's training: its weights are read, and nothing of it is touched."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from palate.engine._local import LocalModel
from palate.engine._torch import require

if TYPE_CHECKING:
    from torch import nn


class LiveModel(LocalModel):
    """A model in memory that writes as one from a folder would.

    It has modules of its own, in eval mode and without hooks, and shares the weights. Where adapters are trained, the
    weights are copied, since what the adapters learned is added to them.
    """

    def __init__(self, name: str, model: nn.Module, tokenizer: Any) -> None:
        from palate.engine._chat import Chat  # which imports torch

        self.name = name
        self.chat = Chat(tokenizer)
        self._live = model
        first = next(model.parameters())
        self._device = str(first.device)
        self._dtype = str(first.dtype).removeprefix("torch.")
        self._trust = False

    @cached_property
    def _model(self) -> Any:
        return _apart(self._live)

    @cached_property
    def fingerprint(self) -> str:
        """Of the weights themselves, so that two states of a training are never taken for one."""
        torch = require("torch", "local")
        digest = hashlib.sha256()
        for name, weight in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return f"{digest.hexdigest()[:16]}-{self._dtype}-{self._device.split(':')[0]}"


def _apart(model: nn.Module) -> Any:
    """The same network as another object: what is set on it is not set on the one that is trained."""
    torch = require("torch", "local")
    if hasattr(model, "merge_and_unload"):
        other: Any = deepcopy(model)
        other = other.merge_and_unload()
    else:
        shared = {id(one): torch.nn.Parameter(one.detach(), requires_grad=False) for one in model.parameters()}
        other = deepcopy(model, shared)
    vars(other).pop("forward", None)  # accelerate puts one there that belongs to the model in training
    for module in other.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    other.config.use_cache = True
    return other.eval()


@contextmanager
def same_random_state() -> Iterator[None]:
    """Whatever is drawn within, the numbers drawn afterwards are those that would have come without it."""
    torch = require("torch", "local")
    python, numbers, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)
