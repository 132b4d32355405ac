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

    The solution is a weighted sum of the differences, so it is sought there where these are fewer than the
    features: the system to solve is as large as the smaller of the two. Users with like numbers are solved together.
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
            and (len(batch) + 1) * longest * width <= _LARGEST_PADDED
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
    """One padded batch. Padding has weight 0 and so never moves anything."""
    _, pairs, width = x.shape
    flipped = x.transpose(1, 2)
    dual = pairs < width  # sought: a with weights = x' a, else the weights themselves
    margins = x @ flipped if dual else x
    eye = precision * torch.eye(min(pairs, width), dtype=torch.double)
    found = torch.zeros(len(x), min(pairs, width), dtype=torch.double)
    own = torch.zeros_like(base)
    for _ in range(STEPS):
        won = torch.sigmoid(base + own)
        curvature = counted * won * (1 - won)
        curved = curvature[..., None] * margins
        target = (curvature * own + counted * (1 - won))[..., None]
        system, target = (curved, target) if dual else (flipped @ curved, flipped @ target)
        new = torch.linalg.solve(eye + system, target)[..., 0]
        moved = ((margins @ new[..., None])[..., 0] - own).abs().max()
        # A full Newton step may overshoot where a user is sure of everything; averaging keeps it from circling.
        found = new if moved < 1 else (found + new) / 2
        own = (margins @ found[..., None])[..., 0]
        if moved < TOLERANCE:
            break
    return ((flipped @ found[..., None])[..., 0] if dual else found).float()
