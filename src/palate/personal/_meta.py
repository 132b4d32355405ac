"""Meta-learning: a starting point from which a few steps on a user's own choices lead to their taste.

After Finn, Abbeel and Levine (2017, "Model-agnostic meta-learning for fast adaptation of deep networks"), with a step
size learned for every weight (Li, Zhou, Chen and Li, 2017, "Meta-SGD") and with more weight on the users who are
served worst, as in meta-learned reward models. A user with n choices, each x taken less x left, starts at w_0 = w
and takes K steps down the slope of their own Bradley-Terry loss:

    w_(k+1) = w_k + a * sum_i sigmoid(-w_k.x_i) x_i / (n + c),    r_u(x) = w_K.x

The starting point w, the step sizes a > 0, one for each feature, and the doubt c > 0 are learned together, so that
after steps on a part of their choices (the support) everybody's other choices (the query) are foretold. Users are
counted by their query losses L_u, with the worst counting for more:

    (1 / worst) log mean_u exp(worst L_u),    for worst = 0 the plain mean

Where we differ: features are frozen and the reward is linear in them, so slopes of slopes are exact; everybody is
taken at once, by L-BFGS; the doubt keeps one choice from moving a user as far as twenty. Nobody in particular gets
the starting point, which is not `bradley-terry`: it is chosen for where it leads, not for where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from palate.personal._bradley_terry import BradleyTerrySettings, linear_base
from palate.personal._in_context import Episodes
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._pairs import Known, Pairs

DESCENT = 60
"""Steps of L-BFGS."""


class MetaSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of `meta`; `precision` is that of the prior on the starting point."""

    steps: int = 3
    """How many steps a user takes from the starting point."""
    step_precision: float = 10.0
    """Of the prior on the logarithms of step sizes: more keeps the features' step sizes nearer to one another."""
    worst: float = 1.0
    """How much more the users count who are served worst; 0 counts all alike."""
    rounds: int = 4
    """How often each user's choices are parted into support and query, at random."""
    most: int = 32
    """How many of a user's choices are parted at once; adaptation uses them all."""


class Meta(Method):
    """Shared weights to start from, and how far a user's own choices move each of them."""

    name = "meta"
    settings_type = MetaSettings
    settings: MetaSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (1.0, 0.1, 10.0, 30.0),
        "step_precision": (10.0, 1.0, 100.0),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """From the `bradley-terry` solution and equal steps, all by L-BFGS on all users at once."""
        start = linear_base(pairs, self.settings.precision).requires_grad_()
        spread = torch.zeros(len(start), requires_grad=True)
        common = torch.zeros(2, requires_grad=True)
        episodes = Episodes(pairs, known, self.settings.most, self.settings.seed)
        everybody = torch.arange(len(episodes))
        rounds = [episodes.draw(everybody) for _ in range(self.settings.rounds)]

        def loss() -> Tensor:
            penalty = self.settings.precision / 2 * start.square().sum() + common.square().sum() / 2
            penalty = penalty + self.settings.step_precision / 2 * spread.square().sum()
            step, doubt = (common[0] + spread).exp(), common[1].exp()
            missed = []
            for batch in rounds:
                differences = pairs.rows[pairs.better[batch.pair]] - pairs.rows[pairs.worse[batch.pair]]
                weight = pairs.weight[batch.pair]
                support, query = weight * batch.context, weight * batch.target
                found = start + self._moved(differences, support, start, step, doubt)
                lost = -(query * logsigmoid(_margins(differences, found))).sum(1)
                asked = query.sum(1)
                missed.append(lost[asked > 0] / asked[asked > 0])
            return penalty + pairs.weight.sum() * tilted(torch.cat(missed), self.settings.worst)

        optimise([start, spread, common], loss, steps=DESCENT)
        self.shared = {
            "start": start.detach(),
            "step": (common[0] + spread).exp().detach(),
            "doubt": common[1].exp().detach(),
        }

    def _moved(self, differences: Tensor, weight: Tensor, start: Tensor, step: Tensor, doubt: Tensor) -> Tensor:
        """(..., features): how far choices of these (..., choices) weights lead from the starting point."""
        moved = torch.zeros(*differences.shape[:-2], len(start))
        counted = weight / (weight.sum(-1, keepdim=True) + doubt)
        for _ in range(self.settings.steps):
            surprise = counted * torch.sigmoid(-_margins(differences, start + moved))
            moved = moved + step * (surprise[..., None, :] @ differences)[..., 0, :]
        return moved

    @torch.no_grad()
    def user(self, known: Known) -> Tensor:
        """The steps from the starting point that the user's judgements ask for."""
        learned = (self.shared[name] for name in ("start", "step", "doubt"))
        return self._moved(known.differences, known.weight, *learned)[None]

    def nobody(self) -> Tensor:
        """No step is taken."""
        return torch.zeros(1, len(self.shared["start"]))

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """By the weights at which the user has arrived."""
        return rows @ (self.shared["start"] + state[0])


def _margins(differences: Tensor, weights: Tensor) -> Tensor:
    return (differences @ weights[..., None])[..., 0]


def tilted(losses: Tensor, worst: float) -> Tensor:
    """Their mean, where `worst` is 0; the larger it is, the nearer to the largest of them.

    >>> [round(float(tilted(torch.tensor([0.0, 1.0]), worst)), 2) for worst in (0.0, 1.0, 100.0)]
    [0.5, 0.62, 0.99]
    """
    if worst == 0:
        return losses.mean()
    return (torch.logsumexp(worst * losses, 0) - math.log(len(losses))) / worst
