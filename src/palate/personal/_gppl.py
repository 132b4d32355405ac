"""Gaussian-process preference learning: one smooth taste for everybody. Impersonal.

Chu and Ghahramani (2005) put a Gaussian process over texts as the prior of the reward f, and say that text a is
preferred to b with a probability that rises with f(a) - f(b). Simpson and Gurevych (2018) make it fast with
inducing points and variational inference.

    f ~ GP(0, k / precision),   p(a over b) = sigmoid(f(a) - f(b))

Inducing points turn f into a weighted sum of features phi (`_inducing.py`), f(x) = phi(x) . w, and the Gaussian
q(w) = N(mean, covariance) is fitted by maximising a lower bound of the evidence. Where we differ: the likelihood
is logistic where theirs is probit, bounded below by a Gaussian as Jaakkola and Jordan (2000) do it, so that each
step is in closed form, never lowers the bound, needs no step size and no random batches; length scales come from a
grid instead of a gradient; the kernel has a linear part, so that Bradley-Terry is one of its special cases; the
reward is the mean of f, and its variance is left out. Plain torch does all this in fewer lines than it would take
to fit a Gaussian-process library to pairs of texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._inducing import InducingSettings, feature_map, learn_map
from palate.personal._method import Method, Validate
from palate.personal._pairs import Known, Pairs

STEPS = 50
TOLERANCE = 1e-5


class GpplSettings(InducingSettings, frozen=True, kw_only=True):
    """Settings of `gppl`."""

    precision: float = 10.0
    """Of the prior on the reward: more pulls it further towards zero."""


class Gppl(Method):
    """One function of the text for everybody."""

    name = "gppl"
    settings_type = GpplSettings
    settings: GpplSettings
    uses = frozenset()
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (10.0, 1.0, 3.0, 30.0),
        "linear": (0.3, 0.0, 1.0, 3.0),
        "length": (1.0, 0.5, 2.0),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The variational posterior of everybody's reward."""
        self.shared.update(learn_map(pairs.rows, self.blocks, self.settings))
        self.shared["mean"] = consensus(self.phi(pairs.rows), pairs, self.settings.precision)

    def phi(self, rows: Tensor) -> Tensor:
        """Features over which the Gaussian process is linear."""
        return feature_map(rows, self.shared, self.blocks, self.settings.linear)

    def user(self, known: Known) -> Tensor:
        """Everybody is nobody in particular."""
        return self.nobody()

    def nobody(self) -> Tensor:
        """There is nothing to know."""
        return torch.zeros(1, 0)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The mean of f."""
        return self.phi(rows) @ self.shared["mean"]


def slope(size: Tensor) -> Tensor:
    """Jaakkola and Jordan's lambda: tanh(size / 2) / (4 size), 1/8 at zero.

    For any size z, log sigmoid(x) >= log sigmoid(z) + (x - z) / 2 - slope(z) (x x - z z), and equal at x = z or -z.
    """
    safe = size.clamp(min=1e-4)
    return torch.tanh(safe / 2) / (4 * safe)


def consensus(phi: Tensor, pairs: Pairs, precision: float) -> Tensor:
    """The posterior mean of the weights of phi, one row of which belongs to each of `pairs.rows`.

    Everything that costs phi's width squared is done once for each text or each pair, whichever are fewer.
    """
    better, worse, weight = _merged(pairs)
    if len(better) < len(phi):
        phi = torch.cat([phi[better] - phi[worse], torch.zeros(1, phi.shape[1])])
        better, worse = torch.arange(len(better)), torch.full_like(better, len(better))
    texts, width = phi.shape
    pull = torch.zeros(texts).index_add_(0, better, weight / 2).index_add_(0, worse, -weight / 2)
    target = (phi.T @ pull).double()
    prior = precision * torch.eye(width, dtype=torch.double)
    mean, lower = torch.zeros(width, dtype=torch.double), prior.sqrt()
    before = -float("inf")
    for _ in range(STEPS):
        inverse = torch.linalg.solve_triangular(lower, torch.eye(width, dtype=torch.double), upper=False)
        value, spread = phi @ mean.float(), phi @ inverse.T.float()
        margin = value[better] - value[worse]
        size = (margin.square() + (spread[better] - spread[worse]).square().sum(1)).sqrt()
        likelihood = (weight * (torch.nn.functional.logsigmoid(size) + (margin - size) / 2)).sum()
        bound = float(likelihood) - _divergence(mean, lower, inverse, precision)
        if bound - before <= TOLERANCE * (1 + abs(bound)):
            break
        before = bound
        laplacian = _laplacian(better, worse, 2 * weight * slope(size), texts)
        lower = torch.linalg.cholesky((phi.T @ laplacian.mm(phi)).double() + prior)
        mean = torch.cholesky_solve(target[:, None], lower)[:, 0]
    return mean.float()


def _merged(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Better, worse and weight, with the choices that several users share counted once and weighing more."""
    both = torch.stack([pairs.better, pairs.worse], 1)
    distinct, place = torch.unique(both, dim=0, return_inverse=True)
    return distinct[:, 0], distinct[:, 1], torch.zeros(len(distinct)).index_add_(0, place, pairs.weight)


def _divergence(mean: Tensor, lower: Tensor, inverse: Tensor, precision: float) -> float:
    """Kullback-Leibler divergence of N(mean, inverse' inverse), where inverse is that of lower, from the prior."""
    squares = precision * (mean.square().sum() + inverse.square().sum())
    log_ratio = 2 * lower.diagonal().log().sum() - len(mean) * math.log(precision)
    return float(squares - len(mean) + log_ratio) / 2


def _laplacian(better: Tensor, worse: Tensor, strength: Tensor, texts: int) -> Tensor:
    """(texts, texts), sparse: the sum over pairs of strength times (e_better - e_worse)(e_better - e_worse)'."""
    places = torch.stack([torch.cat([better, worse, better, worse]), torch.cat([better, worse, worse, better])])
    signed = torch.cat([strength, strength, -strength, -strength])
    return torch.sparse_coo_tensor(places, signed, (texts, texts), check_invariants=False)
