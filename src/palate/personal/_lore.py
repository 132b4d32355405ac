"""LoRe: a few reward functions shared by everybody, mixed for each user.

Bose, Xiong, Chi, Du, Xiao and Fazel (2025), "LoRe: Personalizing LLMs via Low-Rank Reward Modeling". There are
K reward directions V_k; a user is K weights a_u that are not negative and sum to one:

    r_u(x) = sum_k a_uk (V_k . x)

Directions and weights are learned together from everybody's choices. A user never met gets weights only, with
the directions held fixed, which is a convex problem. Where we differ: the features are frozen; the directions
are tied to the `bradley-terry` solution w, so that the mean of the training users' weights gives w exactly;
weights have a Dirichlet prior around that mean, and directions a Gaussian one around w.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._bradley_terry import BradleyTerrySettings, linear_base
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._own_vectors import Judgements, divergence, draw_logits, mixture_weights, users_present
from palate.personal._pairs import Known, Pairs

STEPS = 100


class LoReSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of `lore`."""

    directions: int = 4
    """How many reward directions users mix."""
    direction_precision: float = 0.003
    """Of the prior on the directions, for each user of the training data: more keeps them nearer to w."""
    concentration: float = 4.0
    """Of the prior on a user's weights: more keeps users nearer to the mean."""


class LoRe(Method):
    """A basis of rewards, and a point of the simplex for each user."""

    name = "lore"
    settings_type = LoReSettings
    settings: LoReSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (1.0, 0.1, 10.0, 30.0),
        "direction_precision": (0.003, 0.001, 0.01, 0.03, 0.3),
        "directions": (4, 2, 8),
        "concentration": (4.0, 1.0, 16.0),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The base, then directions and all users' weights together; both by L-BFGS on all pairs at once."""
        base = linear_base(pairs, self.settings.precision)
        offset = pairs.margins(pairs.rows @ base)
        user, users = users_present(pairs)
        generator = torch.Generator().manual_seed(self.settings.seed)
        count = self.settings.directions
        away = (0.1 * torch.randn(count, len(base), generator=generator)).requires_grad_()
        logits = draw_logits(users, count, generator)

        def loss() -> Tensor:
            weights = torch.softmax(logits, 1)
            seen = pairs.rows @ (away - weights.mean(0) @ away).T
            margin = offset + (pairs.margins(seen) * weights[user]).sum(1)
            penalty = self.settings.direction_precision * users / 2 * away.square().sum()
            penalty = penalty + self.settings.concentration * divergence(weights)
            return penalty - pairs.log_likelihood(margin)

        optimise([away, logits], loss, steps=STEPS)
        mean = torch.softmax(logits.detach(), 1).mean(0)
        away = away.detach()
        self.shared = {"directions": base + away - mean @ away, "mean": mean}

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """The most probable weights of each, all users at once."""
        judged = Judgements.of(known)
        scores = (judged.better - judged.worse) @ self.shared["directions"].T
        nothing = torch.zeros(len(scores))
        return mixture_weights(judged, scores, nothing, self.shared["mean"], self.settings.concentration)

    def nobody(self) -> Tensor:
        """The mean weights, with which the reward is that of everybody."""
        return self.shared["mean"][None]

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The mixture of the directions' rewards."""
        return rows @ (state[0] @ self.shared["directions"])
