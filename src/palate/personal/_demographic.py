"""Group weights: everybody's taste, moved by the groups a user belongs to.

Each group (`region=Europe`, `values=honesty`) has weights of its own, all shrunk towards zero together; a
user's reward adds up those of their groups. Needs no judgement of the user, so it serves strangers, and it
says nothing of how a person differs from their groups. A group of fewer than `least` users gets no weights:
they would be about those persons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._bradley_terry import BradleyTerry, BradleyTerrySettings, linear_base
from palate.personal._method import Method, Validate
from palate.personal._optimise import optimise
from palate.personal._pairs import Known, Pairs


class DemographicSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of `demographic`."""

    group_precision: float = 30.0
    """Of the prior on the weights of a group: more keeps groups nearer to everybody."""
    least: int = 5
    """The fewest users that a group must have."""


class Demographic(Method):
    """Shared weights plus those of the user's groups."""

    name = "demographic"
    settings_type = DemographicSettings
    settings: DemographicSettings
    uses = frozenset({"groups"})
    grid: ClassVar[dict[str, tuple[object, ...]]] = {**BradleyTerry.grid, "group_precision": (30.0, 3.0, 10.0, 100.0)}

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """Shared weights first, then the groups' on top of them: both are convex."""
        counts = Counter(group for one in known for group in set(one.groups))
        self.about["groups"] = sorted(group for group, users in counts.items() if users >= self.settings.least)
        weights = linear_base(pairs, self.settings.precision)
        self.shared["weights"] = weights
        groups = torch.zeros(len(self._groups), pairs.rows.shape[1])
        if len(self._groups):
            differences, member = pairs.differences, torch.cat([self.user(one) for one in known])
            base = differences @ weights
            groups.requires_grad_()

            def loss() -> Tensor:
                own = (member @ groups)[pairs.user]
                margin = base + (differences * own).sum(1)
                penalty = self.settings.group_precision / 2 * groups.square().sum()
                return penalty - pairs.log_likelihood(margin)

            optimise([groups], loss)
        self.shared["groups"] = groups.detach()

    @property
    def _groups(self) -> list[str]:
        groups = self.about["groups"]
        assert isinstance(groups, list)
        return groups

    def user(self, known: Known) -> Tensor:
        """Which groups the user belongs to."""
        return torch.tensor([[float(group in known.groups) for group in self._groups]])

    def nobody(self) -> Tensor:
        """No groups."""
        return torch.zeros(1, len(self._groups))

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The sum weighted by shared weights plus those of the user's groups."""
        return rows @ (self.shared["weights"] + state[0] @ self.shared["groups"])
