"""Variational preference learning: an unknown taste is inferred from choices, with how sure one can be of it.

Poddar, Wan, Ivison, Gupta and Jaques, *Personalizing reinforcement learning from human feedback with variational
preference learning* (2024). A user has a hidden vector z with a standard normal prior. An encoder reads labelled
pairs and gives a Gaussian posterior; a decoder gives the reward of a text under z. Both are trained by the
evidence lower bound, with a part of a user's choices to infer z from and the others to predict:

    sum over targets of E log sigmoid(r(better, z) - r(worse, z)) - kl KL(q(z | context) || N(0, 1))
    r(x, z) = w·x + (D z)·x

Where we differ: features are frozen, and the decoder is linear in x around a linear base. The posterior is the
prior times one Gaussian factor for each judgement, with the difference d = better - worse of a judgement read as

    mean m(d) = surprise · B tanh(A d),    precision p(d) = softplus(c + G tanh(A d)^2)

so it narrows with every judgement, it is the prior where there are none, and a judgement the other way round
says the opposite. `surprise` is how improbable the base finds the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import torch
from torch import Tensor

from palate.personal._in_context import EpisodeBatch, Episodes, InContextMethod, InContextSettings, choice_loss, padded
from palate.personal._method import Validate
from palate.personal._pairs import Known, Pairs
from palate.report import Finding

ACTIVE = 0.01
"""A latent unit is active if its posterior mean varies more than this over users (Burda, Grosse and Salakhutdinov,
2016, "Importance Weighted Autoencoders"), and the decoder reads it. With none active the posterior has collapsed: z is
nearly the same for everybody."""


class VplSettings(InContextSettings, frozen=True, kw_only=True):
    """Settings of `vpl`."""

    decay: float = 0.1
    """AdamW's pull of every parameter towards zero."""
    most: int = 64
    """How many judgements of a user are looked at, the last."""
    hidden: int = 64
    """Units of the encoder."""
    latent: int = 8
    """Numbers in z."""
    kl: float = 0.01
    """Weight of the KL term: more keeps users nearer to everybody."""


class Vpl(InContextMethod):
    """Shared weights plus those that the posterior mean of a hidden taste adds."""

    name = "vpl"
    settings_type = VplSettings
    settings: VplSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {"kl": (0.01, 0.1, 0.001)}

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """As every method that reads examples; then count the latent units that tell these users apart."""
        super().learn(pairs, known, validate)
        means = torch.stack([self.posterior(one)[0] for one in known])
        active = (means.var(0, correction=0) > ACTIVE) & (self.shared["decoder"] != 0).any(0)
        self.about["active_units"] = int(active.sum()) / self.settings.latent
        self.about["findings"] = msgspec.to_builtins(_findings(int(active.sum()), self.settings))

    def _start(self, features: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A random encoder and a decoder that says nothing yet."""
        hidden, latent = self.settings.hidden, self.settings.latent
        return {
            "encoder": torch.randn(features, hidden, generator=generator),
            "mean": torch.randn(hidden, latent, generator=generator) * (4 / hidden) ** 0.5,
            "precision": torch.zeros(hidden, latent),
            "precision_base": torch.full((latent,), -1.0),
            "decoder": torch.zeros(features, latent),
        }

    def _loss(self, batch: EpisodeBatch, episodes: Episodes, pairs: Pairs) -> Tensor:
        """The evidence lower bound, with one draw of z for each episode."""
        told, asked = batch.pair[batch.context], batch.pair[batch.target]
        differences = pairs.rows[pairs.better[told]] - pairs.rows[pairs.worse[told]]
        strength, pull = self._factors(differences, pairs.weight[told])
        mean, variance = posterior(padded(strength, batch.context), padded(pull, batch.context))
        noise = torch.randn(mean.shape, generator=episodes.generator)
        own = (mean + variance.sqrt() * noise) @ self.shared["decoder"].T
        # With nothing told, z is noise around the prior mean and the reward is the base: there is nothing to learn.
        own = own * batch.context.any(1, keepdim=True)
        differences = pairs.rows[pairs.better[asked]] - pairs.rows[pairs.worse[asked]]
        margins = self.base(differences) + (differences * own[batch.target.nonzero()[:, 0]]).sum(1)
        kl = (variance + mean.square() - 1 - variance.log()).sum() / 2
        weight = pairs.weight[asked]
        return choice_loss(margins, weight) + self.settings.kl * kl / weight.sum().clamp(min=1)

    def _factors(self, differences: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(judgements, latent) each: the precision of every judgement's factor, and precision times mean."""
        read = torch.tanh(differences @ self.shared["encoder"])
        mean = self.surprise(differences)[:, None] * (read @ self.shared["mean"])
        precision = torch.nn.functional.softplus(
            self.shared["precision_base"] + read.square() @ self.shared["precision"]
        )
        return weight[:, None] * precision, weight[:, None] * precision * mean

    @torch.no_grad()
    def posterior(self, known: Known) -> tuple[Tensor, Tensor]:
        """(latent,) each: mean and variance of a user's hidden taste."""
        most = self.settings.most
        return posterior(*self._factors(known.differences[-most:], known.weight[-most:]))

    def user(self, known: Known) -> Tensor:
        """The posterior mean."""
        return self.posterior(known)[0][None]

    def nobody(self) -> Tensor:
        """The prior mean."""
        return torch.zeros(1, self.settings.latent)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The sum weighted by shared plus decoded weights."""
        return self.base(rows) + rows @ (self.shared["decoder"] @ state[0])


def posterior(strength: Tensor, pull: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of a standard normal prior times Gaussian factors, given along the last dimension but one."""
    variance = 1 / (1 + strength.sum(-2))
    return variance * pull.sum(-2), variance


def _findings(active: int, settings: VplSettings) -> list[Finding]:
    """Something where at most half of the units tell users apart."""
    of = f"of {settings.latent} latent units"
    if not settings.epochs:
        little = f"Judgements added less than {settings.least_gain} to the log-likelihood of held-out users' choices"
        return [Finding("warning", "the personal part was left out, so it is an impersonal model", little)]
    if not active:
        trace = "What it says of a user is a trace; believe it only where gains over none and swapped are clear of zero"
        return [Finding("warning", f"its posterior has collapsed: none {of} is active", trace)]
    if active <= settings.latent / 2:
        detail = f"the posterior means of the others vary over users by no more than {ACTIVE} in variance"
        return [Finding("note", f"{active} {of} are active", detail)]
    return []
