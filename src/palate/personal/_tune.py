"""Hyper-parameters and early stopping, chosen on an inner split of users and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate.personal._folds import spread
from palate.personal._method import Method, MethodSettings
from palate.personal._pairs import Known, Pairs

if TYPE_CHECKING:
    import torch

SHARE = 5
"""One user in five validates, on one unit in five; then, where that is little to go by, the next five."""
ENOUGH = 2_000
"""Choices to validate on, over all turns, where there are that many."""
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
    def of(
        cls, pairs: Pairs, known: Sequence[Known], unit_of_choice: np.ndarray, seed: int, turn: int = 0
    ) -> InnerSplit | None:
        """None where too few users are left to validate on. In each turn other users and other units are held."""
        import torch

        unit = torch.from_numpy(unit_of_choice)[pairs.choice]
        held_units = torch.from_numpy(spread(unit_of_choice, SHARE, seed) == turn)[unit]
        order = np.random.default_rng(seed).permutation(len(pairs.users))[turn::SHARE]
        held_users = torch.zeros(len(pairs.users), dtype=torch.bool)
        held_users[torch.from_numpy(order)] = True
        own = held_users[pairs.user]
        asked, told = own & held_units, own & ~held_units
        all_asked, all_told = pairs.only(asked), pairs.only(told)
        by_user_asked, by_user_told = all_asked.by_user(), all_told.by_user()
        validate: list[tuple[Known, torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for place in order.tolist():
            if not len(by_user_asked[place]) or len(validate) == MOST_VALIDATING:
                continue
            some, seen = all_asked.only(by_user_asked[place]), all_told.only(by_user_told[place])
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

        total = count = 0.0
        with torch.no_grad():
            states = method.users([known for known, *_ in self.validate])
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


def inner_splits(pairs: Pairs, known: Sequence[Known], unit_of_choice: np.ndarray, seed: int) -> list[InnerSplit]:
    """As many turns as it takes to validate on enough choices; none where there are too few users."""
    found: list[InnerSplit] = []
    for turn in range(SHARE):
        split = InnerSplit.of(pairs, known, unit_of_choice, seed, turn)
        found += [split] if split else []
        if sum(float(weight.sum()) for one in found for *_, weight in one.validate) >= ENOUGH:
            break
    return found


def tune(
    kind: type[Method], blocks: dict[str, slice], splits: Sequence[InnerSplit], seed: int
) -> tuple[MethodSettings, float | None]:
    """The best settings on the method's grid, with what they scored; the default where nothing tells.

    What a method sets itself while it learns, such as when to stop, is taken from the first split.
    """
    start = kind.settings_type(seed=seed)
    if not splits:
        return start, None
    tried: dict[MethodSettings, tuple[MethodSettings, float]] = {}

    def attempt(settings: MethodSettings) -> tuple[MethodSettings, float]:
        if settings not in tried:
            methods = [kind(settings, blocks) for _ in splits]
            scores = [_learned(method, split) for method, split in zip(methods, splits, strict=True)]
            tried[settings] = methods[0].settings, float(np.mean(scores))
        return tried[settings]

    for field, values in kind.grid.items():
        options = [msgspec.structs.replace(start, **{field: value}) for value in values]
        start = max(options, key=lambda settings: attempt(settings)[1])
    return attempt(start)


def _learned(method: Method, split: InnerSplit) -> float:
    method.learn(split.train, split.train_known, lambda: split.score(method))
    return split.score(method)
