"""The processes that share a training run: each draws its part of the texts, and all take the same steps."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from palate.engine import require


class ProcessGroup:
    """One process, or as many as `accelerate launch` started; sums are then over all of them.

    Gradients are summed and not averaged: a loss is divided by the tokens of all processes before.
    """

    def __init__(self, world_size: int = 1, rank: int = 0, device: torch.device | None = None) -> None:
        self.world_size, self.rank, self.device = world_size, rank, device

    @classmethod
    def join(cls) -> ProcessGroup:
        """Those that the launcher started with this one; a group of one where there was no launcher."""
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls()
        state = require("accelerate", "local").PartialState(cpu=not torch.cuda.is_available())
        return cls(int(state.num_processes), int(state.process_index), state.device)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def sum(self, numbers: Tensor) -> Tensor:
        """Each number added up over all processes."""
        if self.world_size > 1:
            numbers = numbers.detach().clone().to(self.device)
            torch.distributed.all_reduce(numbers)
        return numbers

    def moments(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Number, mean and variance (over n) of the values under the mask, in float64."""
        kept = torch.where(mask, values, 0.0).double()
        count, total = self.sum(torch.stack([mask.sum().double(), kept.sum()])).to(values.device)
        mean = total / count.clamp(min=1)
        squares = self.sum((torch.where(mask, kept - mean, 0.0) ** 2).sum()).to(values.device)
        return count, mean, squares / count.clamp(min=1)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """What every process learned, added up in each of them."""
        if self.world_size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)

    def barrier(self) -> None:
        """Wait until all processes have come here."""
        if self.world_size > 1:
            torch.distributed.barrier()
