"""Each user's own weights under a Gaussian prior, solved exactly by Newton's method, many users at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

STEPS = 50
TOLERANCE = 1e-6
_LARGEST_PADDED = 4_000_000
"""Numbers in a padded batch of small problems: 32 MiB in float64."""


def own_weights(
    differences: Sequence[Tensor], weight: Sequence[Tensor], offset: Sequence[Tensor], precision: float
) -> Tensor:
    """(users, features): each user's weights on top of the offsets, from few differences each.

    With few differences and many features the solution is a weighted sum of the differences, so it is sought
    there: a system of the size of a user's own judgements. Users with like numbers of them are solved together.
    """
    if not differences:
        return torch.zeros(0, 0)
    width = differences[0].shape[1]
    found = torch.zeros(len(differences), width)
    order = sorted(range(len(differences)), key=lambda place: len(differences[place]))
    while order and not len(differences[order[0]]):
        order.pop(0)
    while order:
        batch = [order.pop()]
        longest = len(differences[batch[0]])
        while (
            order
            and (len(batch) + 1) * longest * max(longest, width) <= _LARGEST_PADDED
            and 2 * len(differences[order[-1]]) >= longest
        ):
            batch.append(order.pop())
        found[batch] = _own(
            _padded([differences[place] for place in batch]),
            _padded([weight[place] for place in batch]),
            _padded([offset[place] for place in batch]),
            precision,
        )
    return found


def _padded(tensors: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(tensors), batch_first=True).double()


def _own(x: Tensor, counted: Tensor, base: Tensor, precision: float) -> Tensor:
    """One padded batch, in the dual: weights = x' a. Padding has weight 0 and so never moves anything."""
    gram = x @ x.transpose(1, 2)
    eye = precision * torch.eye(x.shape[1], dtype=torch.double)
    dual = torch.zeros_like(base)
    for _ in range(STEPS):
        own = (gram @ dual[..., None])[..., 0]
        won = torch.sigmoid(base + own)
        curvature = counted * won * (1 - won)
        target = curvature * own + counted * (1 - won)
        new = torch.linalg.solve(eye + curvature[..., None] * gram, target)
        # A full Newton step may overshoot where a user is sure of everything; averaging keeps it from circling.
        moved = (new - dual).abs().max()
        dual = new if moved < 1 else (dual + new) / 2
        if moved < TOLERANCE:
            break
    return (x.transpose(1, 2) @ dual[..., None])[..., 0].float()
