"""One way of knowing a user, over frozen features. Each method is a file of its own beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from palate.personal._known import Known
from palate.personal._pairs import Pairs

if TYPE_CHECKING:
    import torch

Validate = Callable[[], float]
"""How well the model as it stands predicts users it does not train on: mean log-likelihood of their choices."""


class MethodSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one may set. A method adds fields of its own, each with a line that says what it does."""

    seed: int = 0
    """Decides starting values and the order of batches."""


class Method(ABC):
    """Learns a shared part from everybody, and sums one user up in a tensor, their *state*.

    A user who is never seen in training gets a state from `user` without any retraining, and nobody at all
    gets `nobody`. A state has two dimensions, (k, s): k is 1 for methods that sum a user up in a vector, and
    may be the number of examples for methods that look at each.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[MethodSettings]] = MethodSettings
    uses: ClassVar[frozenset[str]] = frozenset({"judgements"})
    """Which of `judgements`, `posts` and `groups` the method can learn a user from; empty when impersonal."""
    grid: ClassVar[dict[str, tuple[object, ...]]] = {}
    """Settings to choose on an inner split of users: one field after the other, the best of each kept."""

    def __init__(self, settings: MethodSettings, blocks: dict[str, slice]) -> None:
        self.settings = settings
        self.blocks = blocks
        """Which columns of the features come from which encoder."""
        self.shared: dict[str, torch.Tensor] = {}
        """Everything learned from everybody; what is saved."""
        self.about: dict[str, object] = {}
        """Anything else that has to be saved, as JSON."""

    @abstractmethod
    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """Learn the shared part; `known` has one entry for each of `pairs.users`.

        With `validate`, stop early where it says that more training makes it worse, and set `self.settings`
        so that learning again without it stops at the same place.
        """

    @abstractmethod
    def user(self, known: Known) -> torch.Tensor:
        """The state of a user of whom this is known. Called for users of the training data and for others."""

    @abstractmethod
    def nobody(self) -> torch.Tensor:
        """The state under which the method is impersonal."""

    @abstractmethod
    def reward(self, rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """(rows,): how much a user in this state likes each text, on a logistic scale.

        A difference of x between two texts means that the first is preferred with probability sigmoid(x).
        """

    def users(self, known: Sequence[Known]) -> list[torch.Tensor]:
        """States of many users; methods that can do better than one after the other say how."""
        return [self.user(one) for one in known]
