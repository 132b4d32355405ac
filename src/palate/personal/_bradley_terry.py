"""Bradley-Terry: one taste for everybody. Impersonal, and the one to beat.

Bradley and Terry (1952): a text with reward r is preferred to one with reward s with probability
sigmoid(r - s). Here the reward is a weighted sum of the features, with a Gaussian prior on the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from palate.personal._method import Method, MethodSettings, Validate
from palate.personal._optimise import optimise
from palate.personal._pairs import Known, Pairs


class BradleyTerrySettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of `bradley-terry`."""

    precision: float = 1.0
    """Of the prior on the shared weights: more pulls them further towards zero."""


class BradleyTerry(Method):
    """One set of weights for everybody."""

    name = "bradley-terry"
    settings_type = BradleyTerrySettings
    settings: BradleyTerrySettings
    uses = frozenset()
    grid: ClassVar[dict[str, tuple[object, ...]]] = {"precision": (1.0, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)}

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """A convex problem over all pairs at once."""
        self.shared["weights"] = linear_base(pairs, self.settings.precision)

    def user(self, known: Known) -> Tensor:
        """Everybody is nobody in particular."""
        return self.nobody()

    def nobody(self) -> Tensor:
        """There is nothing to know."""
        return torch.zeros(1, 0)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The weighted sum."""
        return rows @ self.shared["weights"]


def linear_base(pairs: Pairs, precision: float) -> Tensor:
    """Everybody's weights under a Gaussian prior, by L-BFGS: the base of personal rewards too.

    Each distinct text is read once in a step, so texts that many users judged cost no more than others. That
    matters to methods whose settings are chosen on a grid, where the base is learned again and again.
    """
    weights = torch.zeros(pairs.rows.shape[1], requires_grad=True)

    def loss() -> Tensor:
        margins = pairs.margins(pairs.rows @ weights)
        return precision / 2 * weights.square().sum() - pairs.log_likelihood(margins)

    optimise([weights], loss)
    return weights.detach()
