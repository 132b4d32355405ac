"""User embedding: a short vector for each user, learned together with what it does to the reward.

After P-RLHF (Li, Zhou, Lipton and Leqi, 2024, "Personalized Language Modeling from Personalized Human
Feedback"), which learns an embedding of every user with a generic one for strangers, and after matrix
factorisation (Koren, Bell and Volinsky, 2009). A text has features x, user u the vector e_u ~ N(0, 1), and

    multiplicative:  r_u(x) = w.x + e_u.(B x)
    additive:        r_u(x) = w.x + v.(tanh(A x + b + C e_u) - tanh(A x + b))

In the first the user's vector weighs a few directions of taste, the rows of B. In the second it shifts the
hidden units of a small network. Where we differ: the features are frozen; w is the `bradley-terry` solution and
held fixed, and what the network says to nobody (e = 0) is taken off, so that e = 0 is exactly bradley-terry;
the rows of C have length one and v a fixed length, since otherwise they grow while A and e_u shrink, and the
priors on those mean nothing. Users never met get the e_u of highest posterior with everything else held fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from palate.personal._bradley_terry import BradleyTerrySettings, linear_base
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._own_vectors import Judgements, gaussian, most_probable, users_present
from palate.personal._pairs import Known, Pairs

STEPS = 100


class UserEmbeddingSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of `user-embedding`."""

    form: Literal["multiplicative", "additive"] = "multiplicative"
    """How a user's vector enters the reward."""
    rank: int = 4
    """How many numbers a user's vector has."""
    hidden: int = 8
    """Units of the network of the additive form."""
    factor_precision: float = 0.03
    """Of the prior on B or A, for each user of the training data: more keeps users nearer to everybody."""


class UserEmbedding(Method):
    """Shared weights, and a vector for each user that acts through shared factors."""

    name = "user-embedding"
    settings_type = UserEmbeddingSettings
    settings: UserEmbeddingSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "precision": (1.0, 0.1, 10.0, 30.0),
        "factor_precision": (0.03, 0.01, 0.1, 0.3, 1.0),
        "rank": (4, 2, 8),
        "form": ("multiplicative", "additive"),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The base, then factors and all users' vectors together; both by L-BFGS on all pairs at once."""
        weights = linear_base(pairs, self.settings.precision)
        base = pairs.margins(pairs.rows @ weights)
        user, users = users_present(pairs)
        factors, own = self._start(pairs.rows.shape[1], users)
        strength = self.settings.factor_precision * users

        def loss() -> Tensor:
            found = self._scaled(factors)
            seen = self._project(pairs.rows, found)
            margin = base + self._margins(seen[pairs.better], seen[pairs.worse], own, user, found)[0]
            penalty = strength / 2 * factors["map"].square().sum() + own.square().sum() / 2
            if "bias" in factors:
                penalty = penalty + factors["bias"].square().sum() / 2
            return penalty - pairs.log_likelihood(margin)

        optimise([*factors.values(), own], loss, steps=STEPS)
        self.shared = {"weights": weights, **{name: one.detach() for name, one in self._scaled(factors).items()}}

    def _start(self, width: int, users: int) -> tuple[dict[str, Tensor], Tensor]:
        """Small random numbers: at zero the factors and the vectors would hold each other there."""
        generator = torch.Generator().manual_seed(self.settings.seed)

        def draw(*shape: int, scale: float) -> Tensor:
            return (scale * torch.randn(*shape, generator=generator)).requires_grad_()

        rank, hidden = self.settings.rank, self.settings.hidden
        own = draw(users, rank, scale=0.1)
        if self.settings.form == "multiplicative":
            return {"map": draw(rank, width, scale=0.1)}, own
        return {
            "map": draw(hidden, width, scale=1.0),
            "bias": draw(hidden, scale=1.0),
            "shift": draw(hidden, rank, scale=1.0),
            "out": draw(hidden, scale=1.0),
        }, own

    def _scaled(self, factors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rows of C to length one, and v to that of a vector of ones."""
        if self.settings.form == "multiplicative":
            return factors
        shift, out = factors["shift"], factors["out"]
        return {
            **factors,
            "shift": normalize(shift),
            "out": len(out) ** 0.5 * normalize(out, dim=0),
        }

    def _project(self, rows: Tensor, factors: dict[str, Tensor]) -> Tensor:
        """B x, or A x + b."""
        seen = rows @ factors["map"].T
        return seen if self.settings.form == "multiplicative" else seen + factors["bias"]

    def _margins(
        self, better: Tensor, worse: Tensor, own: Tensor, user: Tensor, factors: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What the users' vectors add to the margin of each pair, and its slope in the own vector."""
        if self.settings.form == "multiplicative":
            difference = better - worse
            return (difference * own[user]).sum(1), difference
        shift, out = factors["shift"].to(own.dtype), factors["out"].to(own.dtype)
        moved = (own @ shift.T)[user]
        taken, left = torch.tanh(better + moved), torch.tanh(worse + moved)
        added = (taken - left - torch.tanh(better) + torch.tanh(worse)) @ out
        return added, ((left.square() - taken.square()) * out) @ shift

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """The most probable vector of each, all users at once."""
        judged = Judgements.of(known)
        base = ((judged.better - judged.worse) @ self.shared["weights"]).double()
        better, worse = (self._project(rows, self.shared).double() for rows in (judged.better, judged.worse))

        def margins(own: Tensor) -> tuple[Tensor, Tensor]:
            added, slope = self._margins(better, worse, own, judged.user, self.shared)
            return base + added, slope

        start = torch.zeros(len(known), self.settings.rank)
        return [row[None] for row in most_probable(start, judged, margins, gaussian(1.0)).float()]

    def nobody(self) -> Tensor:
        """The middle of the prior."""
        return torch.zeros(1, self.settings.rank)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """Everybody's reward plus what the user's vector adds."""
        seen = self._project(rows, self.shared)
        if self.settings.form == "multiplicative":
            added = seen @ state[0]
        else:
            added = (torch.tanh(seen + self.shared["shift"] @ state[0]) - torch.tanh(seen)) @ self.shared["out"]
        return rows @ self.shared["weights"] + added
