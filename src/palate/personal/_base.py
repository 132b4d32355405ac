"""The impersonal reward on which personal ones are built: that of `bradley-terry`, by a shorter way."""

from __future__ import annotations

import torch
from torch import Tensor

from palate.personal._optimise import optimise
from palate.personal._pairs import Pairs


def linear_base(pairs: Pairs, precision: float) -> Tensor:
    """Everybody's weights under a Gaussian prior, by L-BFGS.

    Each distinct text is read once in a step, so texts that many users judged cost no more than others. That
    matters to methods whose settings are chosen on a grid, where the base is learned again and again.
    """
    weights = torch.zeros(pairs.rows.shape[1], requires_grad=True)

    def loss() -> Tensor:
        reward = pairs.rows @ weights
        margin = reward[pairs.better] - reward[pairs.worse]
        likely = (pairs.weight * torch.nn.functional.logsigmoid(margin)).sum()
        return precision / 2 * weights.square().sum() - likely

    optimise([weights], loss)
    return weights.detach()


def users_present(pairs: Pairs) -> tuple[Tensor, int]:
    """Whose each pair is, counting only users who have pairs, and how many those are."""
    present, user = torch.unique(pairs.user, return_inverse=True)
    return user, len(present)
