"""What methods share that read a user from examples: a linear base, and a personal part trained on episodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from palate.personal._base import linear_base
from palate.personal._bradley_terry import BradleyTerry, BradleyTerrySettings
from palate.personal._contexts import Batch, Episodes
from palate.personal._known import Known
from palate.personal._method import Method, Validate
from palate.personal._optimise import descend
from palate.personal._pairs import Pairs

EPISODES = 64
"""In a batch."""


class InContextSettings(BradleyTerrySettings, frozen=True, kw_only=True):
    """Settings of every method that reads a user from examples."""

    epochs: int = 30
    """How often each pair is seen at most; 0 leaves the model impersonal."""
    rate: float = 3e-3
    """The step of AdamW."""
    decay: float = 1.0
    """AdamW's pull of every parameter towards zero."""
    most: int = 32
    """How many judgements of a user are looked at, the last; and as many posts, where posts are used."""
    least_gain: float = 0.01
    """How much the personal part must add to the mean log-likelihood of held-out users' choices to be kept: the
    best of many epochs on a few held-out questions adds a little by luck alone."""


class InContext(Method):
    """The impersonal reward w·x, found first and then held, plus a personal part that is zero without context.

    Where the inner split says that the personal part helps too little, it is left out, and `epochs` is 0.
    """

    settings: InContextSettings

    @abstractmethod
    def _start(self, features: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Starting values of everything trained, under which the personal part is zero for everybody."""

    @abstractmethod
    def _loss(self, batch: Batch, episodes: Episodes, pairs: Pairs) -> Tensor:
        """What training makes small."""

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """The base by L-BFGS, then the personal part by AdamW on episodes, stopped early."""
        settings = self.settings
        start = self._start(pairs.rows.shape[1], torch.Generator().manual_seed(settings.seed))
        self.shared.update(start)
        settings, alone = self._learn_base(pairs, validate)
        parameters = [value.clone().requires_grad_() for value in start.values()]
        self.shared.update(zip(start, parameters, strict=True))
        episodes = Episodes(pairs, known, settings.most, settings.seed)
        epochs = descend(
            parameters,
            lambda places: self._loss(episodes.draw(places), episodes, pairs),
            len(episodes),
            epochs=settings.epochs,
            batch=EPISODES,
            rate=settings.rate,
            decay=settings.decay,
            seed=settings.seed,
            validate=validate,
        )
        self.shared.update({name: value.detach() for name, value in zip(start, parameters, strict=True)})
        if validate is not None and validate() < alone + settings.least_gain:
            self.shared.update(start)
            epochs = 0
        self.settings = msgspec.structs.replace(settings, epochs=epochs)

    def _learn_base(self, pairs: Pairs, validate: Validate | None) -> tuple[InContextSettings, float]:
        """The impersonal weights, with the precision that validates best, and how well it does."""
        if validate is None:
            self.shared["weights"] = linear_base(pairs, self.settings.precision)
            return self.settings, -float("inf")
        found: dict[float, tuple[float, Tensor]] = {}
        for precision in sorted(float(str(one)) for one in BradleyTerry.grid["precision"]):
            self.shared["weights"] = linear_base(pairs, precision)
            found[precision] = validate(), self.shared["weights"]
        best = max(found, key=lambda precision: found[precision][0])
        score, self.shared["weights"] = found[best]
        return msgspec.structs.replace(self.settings, precision=best), score

    def base(self, rows: Tensor) -> Tensor:
        """The impersonal reward."""
        return rows @ self.shared["weights"]

    def surprise(self, differences: Tensor) -> Tensor:
        """How improbable the base finds each choice: what everybody would choose tells nothing of a user."""
        return torch.sigmoid(-self.base(differences))


def choice_loss(margins: Tensor, weight: Tensor) -> Tensor:
    """Mean negative log-likelihood of choices that were won by these margins."""
    return -(weight * torch.nn.functional.logsigmoid(margins)).sum() / weight.sum().clamp(min=1)
