"""Per-user weights: everybody's taste, moved by each user's own judgements.

A hierarchical Bradley-Terry model with the shared part held at its estimate:

    r_u(x) = base(x) + x . d_u,   d_u ~ N(0, 1 / own_precision)

The base is everybody's: a weighted sum of the features (`bradley-terry`), or a smooth function of them (`gppl`),
whichever predicts other users better. A user without judgements has d_u = 0 and gets the impersonal reward. Seen
and unseen users are treated alike: d_u is always computed from the user's judgements with the base held fixed, a
convex problem of the size of their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from palate.personal._bradley_terry import linear_base
from palate.personal._gppl import GpplSettings, consensus
from palate.personal._inducing import feature_map, learn_map
from palate.personal._method import Method, Validate
from palate.personal._own_vectors import own_weights
from palate.personal._pairs import Known, Pairs


class PerUserSettings(GpplSettings, frozen=True, kw_only=True):
    """Settings of `per-user`."""

    base: Literal["bradley-terry", "gppl"] = "bradley-terry"
    """What everybody shares: a weighted sum of the features, or a smooth function of them."""
    precision: float = 1.0
    """Of the prior on the shared part: more pulls it further towards zero."""
    own_precision: float = 10.0
    """Of the prior on what a user adds: more keeps users nearer to everybody."""
    narrow: bool = False
    """Let a user differ on the narrowest block of features only, such as text traits beside an embedding."""


class PerUser(Method):
    """A shared reward plus each user's own weights."""

    name = "per-user"
    settings_type = PerUserSettings
    settings: PerUserSettings
    grid: ClassVar[dict[str, tuple[object, ...]]] = {
        "base": ("bradley-terry", "gppl"),
        "precision": (1.0, 0.3, 3.0, 10.0, 30.0),
        "own_precision": (10.0, 1.0, 3.0, 30.0, 100.0),
        "narrow": (False, True),
    }

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The shared part; what users add is worked out from it in `users`."""
        if self.settings.base == "gppl":
            self.shared.update(learn_map(pairs.rows, self.blocks, self.settings))
            self.shared["mean"] = consensus(self._phi(pairs.rows), pairs, self.settings.precision)
        else:
            self.shared["weights"] = linear_base(pairs, self.settings.precision)

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """Newton's method on each user's own judgements, in batches of like numbers of them."""
        counts = [len(one.better) for one in known]
        if not sum(counts):
            return [self.nobody() for _ in known]
        offsets = self._base(torch.cat([one.better for one in known])) - self._base(
            torch.cat([one.worse for one in known])
        )
        own = own_weights(
            [one.differences[:, self._columns()] for one in known],
            [one.weight for one in known],
            torch.split(offsets, counts),
            self.settings.own_precision,
        )
        return [row[None] for row in own]

    def nobody(self) -> Tensor:
        """Nothing is added."""
        columns = self._columns()
        return torch.zeros(1, columns.stop - columns.start)

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """What everybody likes plus what the user's own weights say."""
        return self._base(rows) + rows[:, self._columns()] @ state[0]

    def _base(self, rows: Tensor) -> Tensor:
        if self.settings.base == "gppl":
            return self._phi(rows) @ self.shared["mean"]
        return rows @ self.shared["weights"]

    def _phi(self, rows: Tensor) -> Tensor:
        return feature_map(rows, self.shared, self.blocks, self.settings.linear)

    def _columns(self) -> slice:
        blocks = self.blocks.values()
        if self.settings.narrow:
            return min(blocks, key=lambda block: block.stop - block.start)
        return slice(0, max(block.stop for block in blocks))
