"""Hyper-parameters and early stopping, chosen on an inner split of users and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate.personal._known import Known
from palate.personal._method import Method, MethodSettings
from palate.personal._pairs import Pairs
from palate.personal._units import spread

if TYPE_CHECKING:
    import torch

SHARE = 5
"""One user in five validates, on one unit in five."""
MOST_VALIDATING = 400
FEWEST_VALIDATING = 3
"""With fewer users to validate on, the default settings are used."""


@dataclass(frozen=True, eq=False)
class InnerSplit:
    """Users to train on, and others: what may be known of those, and what they then choose."""

    train: Pairs
    train_known: list[Known]
    validate: list[tuple[Known, torch.Tensor, torch.Tensor, torch.Tensor]]
    """For each validating user: what is known, better rows, worse rows, weights."""

    @classmethod
    def of(cls, pairs: Pairs, known: Sequence[Known], unit_of_choice: np.ndarray, seed: int) -> InnerSplit | None:
        """None where too few users are left to validate on."""
        import torch

        unit = torch.from_numpy(unit_of_choice)[pairs.choice]
        held_units = torch.from_numpy(spread(unit_of_choice, SHARE, seed) == 0)[unit]
        order = np.random.default_rng(seed).permutation(len(pairs.users))
        held_users = torch.zeros(len(pairs.users), dtype=torch.bool)
        held_users[torch.from_numpy(order[: len(order) // SHARE])] = True
        own = held_users[pairs.user]
        asked, told = own & held_units, own & ~held_units
        by_user_asked, by_user_told = pairs.only(asked).by_user(), pairs.only(told).by_user()
        validate: list[tuple[Known, torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for place in order[: len(order) // SHARE].tolist():
            if not len(by_user_asked[place]) or len(validate) == MOST_VALIDATING:
                continue
            some, seen = pairs.only(asked).only(by_user_asked[place]), pairs.only(told).only(by_user_told[place])
            may_know = replace(
                known[place], better=seen.rows[seen.better], worse=seen.rows[seen.worse], weight=seen.weight
            )
            validate.append((may_know, some.rows[some.better], some.rows[some.worse], some.weight))
        if len(validate) < FEWEST_VALIDATING:
            return None
        train = pairs.only(~own & ~held_units)
        return cls(train, _known_of(train, known), validate) if len(train) else None

    def score(self, method: Method) -> float:
        """Mean log-likelihood of the validating users' choices."""
        import torch

        states = method.users([known for known, *_ in self.validate])
        total = count = 0.0
        with torch.no_grad():
            for state, (_, better, worse, weight) in zip(states, self.validate, strict=True):
                margin = method.reward(better, state) - method.reward(worse, state)
                total += float((weight * torch.nn.functional.logsigmoid(margin)).sum())
                count += float(weight.sum())
        return total / count


def _known_of(train: Pairs, known: Sequence[Known]) -> list[Known]:
    """What is known of each user once the held-out pairs are taken away."""
    return [
        replace(one, better=train.rows[train.better[own]], worse=train.rows[train.worse[own]], weight=train.weight[own])
        for one, own in zip(known, train.by_user(), strict=True)
    ]


def tune(
    kind: type[Method], blocks: dict[str, slice], split: InnerSplit | None, seed: int
) -> tuple[MethodSettings, float | None]:
    """The best settings on the method's grid, with what they scored; the default where nothing tells."""
    best = kind.settings_type(seed=seed)
    if split is None:
        return best, None
    tried: dict[MethodSettings, tuple[MethodSettings, float]] = {}

    def attempt(settings: MethodSettings) -> tuple[MethodSettings, float]:
        if settings not in tried:
            method = kind(settings, blocks)
            method.learn(split.train, split.train_known, lambda: split.score(method))
            tried[settings] = method.settings, split.score(method)
        return tried[settings]

    start = best
    for field, values in kind.grid.items():
        options = [msgspec.structs.replace(start, **{field: value}) for value in values]
        start = max(options, key=lambda settings: attempt(settings)[1])
    return attempt(start)
