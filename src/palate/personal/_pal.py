"""PAL: a user's ideal point lies among a few prototypes, and texts nearer to it are liked better.

Chen, Chen, Rege, Wang and Korlakai Vinayak (2024), "PAL: Pluralistic Alignment Framework for Learning from
Heterogeneous Preferences", after the unfolding model of Coombs (1950). A map f takes texts into a small space
with K prototypes p_k. User u's ideal point is a mixture of them, z_u = sum_k a_uk p_k, where the weights are not
negative and sum to one, and

    r_u(x) = w.x - s |f(x) - z_u|^2,    f(x) = tanh(F x)

All is learned together from everybody's choices. A user never met gets mixture weights only. Where we differ:
the features are frozen and f is one layer, bounded so that a text unlike any in the training data is not
infinitely disliked; the distance comes on top of the `bradley-terry` reward w.x, held fixed;
prototypes have length one; weights have a Dirichlet prior around the mean of the training users' weights, whose
ideal point serves nobody in particular. How sharply liking falls off, s, is chosen on held-out users: descended
on, it goes to where |f(x)|^2, which is the same for everybody, fits the noise of the training texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from palate.personal._bradley_terry import BradleyTerrySettings, linear_base
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._own_vectors import Judgements, divergence, draw_logits, mixture_weights, users_present
from palate.personal._pairs import Known, Pairs

STEPS = 100


class PalSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of `pal`."""

    prototypes: int = 4
    """How many prototypes there are."""
    dimensions: int = 4
    """Of the space in which texts, prototypes and users lie."""
    scale: float = 3.0
    """s: how much distance matters. With more, texts lie nearer to the middle, and tastes are nearer to linear."""
    map_precision: float = 0.01
    """Of the prior on 2 s F, for each user of the training data: more keeps users nearer to everybody."""
    concentration: float = 4.0
    """Of the prior on a user's weights: more keeps users nearer to the mean."""


class Pal(Method):
    """Prototypes in a small space, and a point among them for each user."""

    name = "pal"
    settings_type = PalSettings
    settings: PalSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (1.0, 0.1, 10.0, 30.0),
        "scale": (3.0, 1.0, 10.0, 100.0),
        "map_precision": (0.01, 0.003, 0.03, 0.1, 1.0),
        "prototypes": (4, 2, 8),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The base, then map, prototypes and all users' weights together, by L-BFGS on all pairs at once.

        What is descended on is the pull G = 2 s F, since users differ by about z_u . G x and the prior has to be
        on that.
        """
        base = linear_base(pairs, self.settings.precision)
        offset = pairs.margins(pairs.rows @ base)
        user, users = users_present(pairs)
        generator = torch.Generator().manual_seed(self.settings.seed)
        count, dimensions = self.settings.prototypes, self.settings.dimensions
        pull = (0.1 * torch.randn(dimensions, len(base), generator=generator)).requires_grad_()
        prototypes = torch.randn(count, dimensions, generator=generator).requires_grad_()
        scale = self.settings.scale
        logits = draw_logits(users, count, generator)

        def loss() -> Tensor:
            weights = torch.softmax(logits, 1)
            place = torch.tanh(pairs.rows @ pull.T / (2 * scale))
            towards = 2 * scale * place @ normalize(prototypes).T
            far = scale * place.square().sum(1)
            margin = offset + (pairs.margins(towards) * weights[user]).sum(1)
            margin = margin - far[pairs.better] + far[pairs.worse]
            penalty = self.settings.map_precision * users / 2 * pull.square().sum()
            penalty = penalty + self.settings.concentration * divergence(weights)
            return penalty - pairs.log_likelihood(margin)

        optimise([pull, prototypes, logits], loss, steps=STEPS)
        self.shared = {
            "weights": base,
            "map": pull.detach() / (2 * scale),
            "prototypes": normalize(prototypes.detach()),
            "mean": torch.softmax(logits.detach(), 1).mean(0),
        }

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """The most probable mixture weights of each, all users at once; |z_u|^2 leaves every margin."""
        judged, scale = Judgements.of(known), self.settings.scale
        better, worse = self._place(judged.better), self._place(judged.worse)
        scores = 2 * scale * (better - worse) @ self.shared["prototypes"].T
        offset = (judged.better - judged.worse) @ self.shared["weights"]
        offset = offset - scale * (better.square().sum(1) - worse.square().sum(1))
        return mixture_weights(judged, scores, offset, self.shared["mean"], self.settings.concentration)

    def nobody(self) -> Tensor:
        """The mean weights: an ideal point in the middle of everybody's."""
        return self.shared["mean"][None]

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """Everybody's reward, less the squared distance from the user's ideal point."""
        ideal = state[0] @ self.shared["prototypes"]
        far = (self._place(rows) - ideal).square().sum(1)
        return rows @ self.shared["weights"] - self.settings.scale * far

    def _place(self, rows: Tensor) -> Tensor:
        return torch.tanh(rows @ self.shared["map"].T)
