"""A run as arrays: for each reward model and weight, which comparisons the steered policy gets right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from palate.downstream.guide._run import AnswerTokens, GuideItem, GuideRun, LikelihoodLine, TokenRewardLine
from palate.downstream.guide._tilt import limit, tilted
from palate.stats import Floats, credit

LEVEL = 9
"""Digits after the point to which sums are the same: the rest is dust of adding up."""


class Credits(msgspec.Struct, frozen=True, kw_only=True):
    """For each item 1 where right, 0 where wrong, a share where tied; nan where it does not count."""

    reward: Floats
    normalised: dict[float | None, Floats]
    """By weight; None is what large weights tend to."""
    whole: dict[float | None, Floats]
    reasons: dict[str, int]
    """Why comparisons are left out, with how often."""


class Pairs:
    """The comparisons of a run."""

    def __init__(self, run: GuideRun, items: Sequence[GuideItem], weights: Sequence[float]) -> None:
        self._items = items
        self._weights: list[float | None] = [*weights, None]
        self._likelihoods = run.likelihoods()
        self._rewards = run.rewards()
        self._ratings = run.ratings()

    def complete(self, policy_view: str, rm: str, view: str) -> bool:
        """Whether every comparison was followed and rated."""
        pairs = [item.id for item in self._items if item.preferred is not None]
        read = [self._likelihoods.get((policy_view, item)) for item in pairs]
        followed = [line.item for line in read if line is not None and line.failed is None]
        return (
            None not in read
            and all((policy_view, rm, view, item) in self._rewards for item in followed)
            and all((rm, view, item) in self._ratings for item in pairs)
        )

    def credits(self, policy_view: str, rm: str, view: str) -> Credits:
        """Of one reward model under one view."""
        blank = np.full(len(self._items), np.nan)
        found = Credits(
            reward=blank.copy(),
            normalised={weight: blank.copy() for weight in self._weights},
            whole={weight: blank.copy() for weight in self._weights},
            reasons={},
        )
        reasons: Counter[str] = Counter()
        for place, item in enumerate(self._items):
            if item.preferred is None:
                continue
            known = self._known(policy_view, rm, view, item.id)
            if isinstance(known, str):
                reasons[known] += 1
                continue
            scores, answers, rewards = known
            found.reward[place] = credit(scores, item.preferred)
            for weight in self._weights:
                said = [_said(answer, some, weight) for answer, some in zip(answers, rewards, strict=True)]
                found.whole[weight][place] = _credit([one.sum(axis=1) for one in said], item.preferred)
                found.normalised[weight][place] = _credit([one.mean(axis=1) for one in said], item.preferred)
        return msgspec.structs.replace(found, reasons=dict(reasons))

    def _known(
        self, policy_view: str, rm: str, view: str, item: str
    ) -> tuple[Sequence[float], Sequence[AnswerTokens], Sequence[Sequence[Sequence[float]]]] | str:
        likelihood: LikelihoodLine | None = self._likelihoods.get((policy_view, item))
        if likelihood is None:
            return "not read yet"
        if likelihood.failed is not None:
            return likelihood.failed
        rewards: TokenRewardLine | None = self._rewards.get((policy_view, rm, view, item))
        rating = self._ratings.get((rm, view, item))
        if rewards is None or rating is None:
            return "not rated yet"
        if rewards.unscored is not None:
            return rewards.unscored
        if rating.rating.scores is None:
            return rating.rating.unscored or "unscored"
        return rating.rating.scores, likelihood.answers, rewards.rewards


def _said(answer: AnswerTokens, rewards: Sequence[Sequence[float]], weight: float | None) -> Floats:
    """The log-probability of each token of a response under the tilted policy; at the limit in two rows, of which the
    second decides where the first is level."""
    candidates = answer.candidates
    width = max(len(tokens) for tokens, _, _ in candidates)
    values = np.full((len(candidates), width), -np.inf)
    worth = np.zeros((len(candidates), width))
    for place, ((_, some, _), own) in enumerate(zip(candidates, rewards, strict=True)):
        values[place, : len(some)] = some
        worth[place, : len(own)] = own
    chosen = [own for _, _, own in candidates]
    if weight is None:
        return np.stack(limit(values, worth, chosen))
    return tilted(values, worth, chosen, weight)[None]


def _credit(totals: Sequence[Floats], preferred: int) -> float:
    """Of responses that are compared by their first number, and by their second where the first is level."""
    keys = [tuple(np.round(one, LEVEL)) for one in totals]
    order = sorted(set(keys))
    return credit([order.index(key) for key in keys], preferred)
