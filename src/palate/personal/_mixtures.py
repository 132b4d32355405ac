"""Users as mixtures: weights that are not negative and sum to one, over a few things shared by everybody.

The weights of user u are a_u = softmax(t_u). Beforehand they are expected near the mean weights m of the users
of the training data: the penalty is c KL(m || a_u), that of a Dirichlet prior with c m counted in advance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from palate.personal._own_vectors import Judged, Prior, most_probable


def divergence(weights: Tensor) -> Tensor:
    """The sum over users of KL(m || a_u), where m is the mean of the (users, k) weights."""
    mean = weights.mean(0)
    return (mean * (mean.log() - weights.log())).sum()


def near_mean(mean: Tensor, concentration: float) -> Prior:
    """The same for given mean weights, as a prior on logits."""

    def prior(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_weights = torch.log_softmax(logits, 1)
        weights = log_weights.exp()
        curvature = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        # Adding a number to all logits changes nothing. A curvature there keeps the system solvable; the
        # slope there is zero, so it moves nothing.
        flat = torch.full_like(curvature, 1 / logits.shape[1])
        return (
            concentration * (mean * (mean.log() - log_weights)).sum(1),
            concentration * (weights - mean),
            concentration * (curvature + 1e-3 * torch.eye(logits.shape[1], dtype=logits.dtype) + flat),
        )

    return prior


def mixture_weights(judged: Judged, scores: Tensor, offset: Tensor, mean: Tensor, concentration: float) -> list[Tensor]:
    """Each user's (1, k) most probable weights, where the margin of a judgement is offset + a_u . scores."""
    scores, offset = scores.double(), offset.double()
    centre = mean.double() / mean.double().sum()

    def margins(logits: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.softmax(logits, 1)[judged.user]
        mixed = (weights * scores).sum(1)
        return offset + mixed, weights * (scores - mixed[:, None])

    start = centre.log().expand(judged.users, -1)
    logits = most_probable(start, judged, margins, near_mean(centre, concentration))
    return [row[None] for row in torch.softmax(logits, 1).float()]


def draw_logits(users: int, count: int, generator: torch.Generator) -> Tensor:
    """Where the users of the training data start: near equal weights, no two alike."""
    return (0.1 * torch.randn(users, count, generator=generator)).requires_grad_()
