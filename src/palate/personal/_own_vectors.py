"""Each user's own short vector, most probable given their judgements: Newton's method for all users at once.

The methods that sum a user up in a few numbers differ in how those numbers make a margin (the reward of what
was taken minus that of what was left) and in what is expected of them beforehand. The rest is here. Each user's
steps depend on that user alone, so a user gets the same vector alone and in company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palate.personal._known import Known

STEPS = 20
HALVINGS = 20
TOLERANCE = 1e-6

Margins = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From the (users, s) vectors: the (judgements,) margins, and their (judgements, s) slopes in the own vector."""
Prior = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""From the (users, s) vectors: the (users,) penalty, its (users, s) slope, and a (users, s, s) curvature."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The judgements of many users, laid end to end."""

    better: Tensor
    """(judgements, features) of what was taken."""
    worse: Tensor
    """(judgements, features) of what was left."""
    weight: Tensor
    """(judgements,)"""
    user: Tensor
    """(judgements,) whose each is."""
    users: int

    @classmethod
    def of(cls, known: Sequence[Known]) -> Judged:
        """Everything that is known of these users' choices."""
        counts = torch.tensor([len(one.better) for one in known])
        return cls(
            torch.cat([one.better for one in known]),
            torch.cat([one.worse for one in known]),
            torch.cat([one.weight for one in known]).double(),
            torch.repeat_interleave(torch.arange(len(known)), counts),
            len(known),
        )

    def total(self, values: Tensor) -> Tensor:
        """Sums over each user's judgements."""
        return torch.zeros(self.users, *values.shape[1:], dtype=values.dtype).index_add_(0, self.user, values)


def gaussian(precision: float) -> Prior:
    """Expects a vector near zero."""

    def prior(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        eye = torch.eye(vectors.shape[1], dtype=vectors.dtype)
        return (
            precision / 2 * vectors.square().sum(1),
            precision * vectors,
            (precision * eye).expand(len(vectors), -1, -1),
        )

    return prior


def most_probable(start: Tensor, judged: Judged, margins: Margins, prior: Prior) -> Tensor:
    """(users, s): where each user's posterior is highest, sought from `start` in double precision.

    Where margins are not linear in the vector their own curvature is left out (Gauss-Newton), and each user's
    step is halved until that user's objective does not rise, so it goes down from anywhere.
    """
    vectors = start.double()

    def objective(candidates: Tensor) -> Tensor:
        missed = -torch.nn.functional.logsigmoid(margins(candidates)[0])
        return judged.total(judged.weight * missed) + prior(candidates)[0]

    value = objective(vectors)
    moving = torch.ones(judged.users, dtype=torch.bool)
    for _ in range(STEPS):
        step = _step(vectors, judged, margins, prior)
        step[~moving] = 0
        lower = objective(vectors - step)
        for _ in range(HALVINGS):
            rises = ~(lower <= value)
            if not rises.any():
                break
            step[rises] /= 2
            lower = objective(vectors - step)
        step[~(lower <= value)] = 0
        vectors = vectors - step
        lower = torch.minimum(lower, value)
        moving &= value - lower > TOLERANCE * (1 + value)
        value = lower
        if not moving.any():
            break
    return vectors


def _step(vectors: Tensor, judged: Judged, margins: Margins, prior: Prior) -> Tensor:
    margin, slope = margins(vectors)
    won = torch.sigmoid(margin)
    _, gradient, curvature = prior(vectors)
    gradient = gradient - judged.total((judged.weight * (1 - won))[:, None] * slope)
    counted = (judged.weight * won * (1 - won))[:, None] * slope
    # Row by row of the curvature: all rows at once would need a small matrix for every judgement.
    rows = [judged.total(counted[:, [row]] * slope) for row in range(slope.shape[1])]
    step: Tensor = torch.linalg.solve(curvature + torch.stack(rows, 1), gradient)
    return step
