"""Crowd preference learning: a consensus, and a few smooth tastes that each user has more or less of.

Simpson and Gurevych (2020): the reward of user u is the consensus t plus C latent functions of the text, each
weighted by how much of it the user has. All functions are Gaussian processes, all weights are Gaussian.

    f_u(x) = t(x) + sum over c of w_cu v_c(x),   t ~ GP(0, k / precision),
    v_c ~ GP(0, k / taste_precision),   w_cu ~ N(0, 1),   p(u takes a over b) = sigmoid(f_u(a) - f_u(b))

Inducing points turn t and each v_c into weighted sums of features phi (`_inducing.py`). Learning goes back and
forth between the users' weights given the tastes, a Gaussian with a C by C covariance for each user, in closed
form, and the tastes given the users' weights. Where we differ: the likelihood is logistic and bounded as in `gppl`;
t is that of `gppl` and stays there, so that a user of whom nothing is known gets the best impersonal reward; v_c is
the most probable one, where the paper keeps a Gaussian around it; users have no features, so that judgements alone
tell about a user. Users of the training data and others are treated alike: their weights are the posterior mean
given their judgements, with t and v fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from palate.personal._gppl import GpplSettings, consensus, slope
from palate.personal._inducing import feature_map, learn_map
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._pairs import Known, Pairs

_UPDATES = 2
"""Of the users' weights in each round: the next round resumes from them."""
_DESCENT = 5
"""Steps towards the best tastes in each round; the next round has another bound to climb."""
_MOST_UPDATES = 50
TOLERANCE = 1e-4


class CrowdGpplSettings(GpplSettings, frozen=True, kw_only=True):
    """Settings of `crowd-gppl`."""

    components: int = 4
    """How many tastes a user has more or less of."""
    taste_precision: float = 30.0
    """Of the prior on these tastes: more makes them weaker, and users more alike."""
    rounds: int = 12
    """How often the users' weights and the tastes are learned in turn."""


class Weights(NamedTuple):
    """What is believed of users' weights: a Gaussian for each."""

    mean: Tensor
    """(users, components)"""
    covariance: Tensor
    """(users, components, components)"""


class CrowdGppl(Method):
    """A consensus plus a few tastes, weighted by the user."""

    name = "crowd-gppl"
    settings_type = CrowdGpplSettings
    settings: CrowdGpplSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (10.0, 3.0, 30.0),
        "linear": (0.3, 0.0, 1.0),
        "taste_precision": (30.0, 3.0, 10.0, 100.0),
        "components": (4, 1, 8),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The consensus alone, then users' weights and tastes in turn: variational expectation-maximisation."""
        self.shared.update(learn_map(pairs.rows, self.blocks, self.settings))
        phi = feature_map(pairs.rows, self.shared, self.blocks, self.settings.linear)
        self.shared["consensus"] = consensus(phi, pairs, self.settings.precision)
        base = pairs.margins(phi @ self.shared["consensus"])
        tastes = first_tastes(phi, pairs, base, self.settings.components)
        weights = prior(len(pairs.users), len(tastes))
        for _ in range(self.settings.rounds):
            own = pairs.margins(phi @ tastes.T)
            for _ in range(_UPDATES):
                weights = update(weights, base, own, pairs.weight, pairs.user)
            tastes = self._tastes(tastes, phi, pairs, base, weights)
        self.shared["tastes"] = tastes

    def _tastes(self, tastes: Tensor, phi: Tensor, pairs: Pairs, base: Tensor, weights: Weights) -> Tensor:
        """Better tastes for users with these weights: a few steps up the bound, which is quadratic in them."""
        mean, covariance = weights.mean[pairs.user], weights.covariance[pairs.user]

        def moments(tastes: Tensor) -> tuple[Tensor, Tensor]:
            """Expectation of each pair's margin, and of its square."""
            own = pairs.margins(phi @ tastes.T)
            margin = base + (own * mean).sum(1)
            return margin, margin.square() + ((own[:, None] @ covariance)[:, 0] * own).sum(1)

        strength = slope(moments(tastes)[1].sqrt())
        moved = tastes.clone().requires_grad_()

        def loss() -> Tensor:
            margin, square = moments(moved)
            penalty = self.settings.taste_precision / 2 * moved.square().sum()
            return penalty + (pairs.weight * (strength * square - margin / 2)).sum()

        optimise([moved], loss, steps=_DESCENT)
        return moved.detach()

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """The posterior mean of each user's weights, all users at once."""
        if not known:
            return []
        counts = torch.tensor([len(one.weight) for one in known])
        user = torch.repeat_interleave(torch.arange(len(known)), counts)
        base, own = (
            better - worse
            for better, worse in zip(
                self._values(torch.cat([one.better for one in known])),
                self._values(torch.cat([one.worse for one in known])),
                strict=True,
            )
        )
        weights = prior(len(known), len(self.shared["tastes"]))
        for _ in range(_MOST_UPDATES):
            before, weights = weights, update(weights, base, own, torch.cat([one.weight for one in known]), user)
            if float((weights.mean - before.mean).abs().max()) < TOLERANCE:
                break
        return [row[None] for row in weights.mean]

    def nobody(self) -> Tensor:
        """No taste but the consensus."""
        return torch.zeros(1, len(self.shared["tastes"]))

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The consensus plus the tastes as the user has them."""
        common, own = self._values(rows)
        return common + own @ state[0]

    def _values(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(rows,) of the consensus and (rows, components) of the tastes."""
        phi = feature_map(rows, self.shared, self.blocks, self.settings.linear)
        return phi @ self.shared["consensus"], phi @ self.shared["tastes"].T


def prior(users: int, components: int) -> Weights:
    """What is believed of users before their first judgement."""
    return Weights(torch.zeros(users, components), torch.eye(components).repeat(users, 1, 1))


def update(weights: Weights, base: Tensor, own: Tensor, weight: Tensor, user: Tensor) -> Weights:
    """One step towards the posterior of all users' weights, which never lowers its bound.

    For each judgement: `base`, the margin by consensus; `own`, by each taste; its `weight` and its `user`.
    """
    outer = own[:, :, None] * own[:, None, :]
    margin = base + (own * weights.mean[user]).sum(1)
    size = (margin.square() + (outer * weights.covariance[user]).sum((1, 2))).clamp(min=0).sqrt()
    strength = 2 * weight * slope(size)
    nothing = prior(*weights.mean.shape)
    precision = nothing.covariance.index_add(0, user, strength[:, None, None] * outer)
    pull = nothing.mean.index_add(0, user, (weight / 2 - strength * base)[:, None] * own)
    covariance = torch.linalg.inv(precision)
    return Weights((covariance @ pull[..., None])[..., 0], covariance)


def first_tastes(phi: Tensor, pairs: Pairs, base: Tensor, components: int) -> Tensor:
    """The directions in which users most depart from the consensus, to start from.

    A user's departure is the slope of the likelihood of their choices, divided by the root of their number, so
    that chance alone would move everybody alike.
    """
    users = len(pairs.users)
    missed = pairs.weight * torch.sigmoid(-base)
    places = torch.stack([pairs.user.repeat(2), torch.cat([pairs.better, pairs.worse])])
    table = torch.sparse_coo_tensor(places, torch.cat([missed, -missed]), (users, len(phi)), check_invariants=False)
    counts = torch.zeros(users).index_add_(0, pairs.user, pairs.weight)
    departures = table.mm(phi) / counts.clamp(min=1).sqrt()[:, None]
    _, _, directions = torch.linalg.svd(departures, full_matrices=False)
    directions = directions[:components].contiguous()
    sizes = pairs.margins(phi @ directions.T).square().mean(0).sqrt()
    scaled: Tensor = directions / (2 * sizes[:, None]).clamp(min=1e-6)
    return scaled
