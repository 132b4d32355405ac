"""Policy accuracy beside reward accuracy: which comparisons the steered policy gets right, and how clearly.

Intervals resample users, and every weight is tested against the policy alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._items import PromptItem
from palate.downstream._personal import Against, against
from palate.downstream.guide._guiding import limit, tilted
from palate.downstream.guide._results import PairResult, PolicyAccuracy
from palate.downstream.guide._run import LIKELIHOODS, RATINGS, TOKEN_REWARDS, AnswerTokens, GuideSettings
from palate.runs import Run
from palate.stats import SHARE, Figure, Floats, PairedTest, Resamples, credit, figures
from palate.views import ViewSpec

Names = tuple[str, str, str]
"""Policy view, reward model, view."""
Weighted = tuple[Names, float | None]
DIGITS = 9
"""Digits after the point to which sums are compared: the rest is rounding error."""


class Credits(msgspec.Struct, frozen=True, kw_only=True):
    """For each item 1 where right, 0 where wrong, a share where tied; nan where it does not count."""

    reward: Floats
    normalised: dict[float | None, Floats]
    """By log-probability per token, by weight; None is the limit of large weights."""
    whole: dict[float | None, Floats]
    reasons: dict[str, int]
    """Why comparisons are left out, with how often."""


class GuidedPairs:
    """The comparisons of a run."""

    def __init__(self, run: Run[GuideSettings], items: Sequence[PromptItem], weights: Sequence[float]) -> None:
        self._items = items
        self._weights: list[float | None] = [*weights, None]
        self._likelihoods = run.lines(LIKELIHOODS)
        self._rewards = run.lines(TOKEN_REWARDS)
        self._ratings = run.lines(RATINGS)

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
                tokens = [
                    _token_log_probabilities(answer, own, weight) for answer, own in zip(answers, rewards, strict=True)
                ]
                found.whole[weight][place] = _credit([one.sum(axis=1) for one in tokens], item.preferred)
                found.normalised[weight][place] = _credit([one.mean(axis=1) for one in tokens], item.preferred)
        return msgspec.structs.replace(found, reasons=dict(reasons))

    def _known(
        self, policy_view: str, rm: str, view: str, item: str
    ) -> tuple[Sequence[float], Sequence[AnswerTokens], Sequence[Sequence[Sequence[float]]]] | str:
        likelihood = self._likelihoods.get((policy_view, item))
        if likelihood is None:
            return "not read yet"
        if likelihood.failed is not None:
            return likelihood.failed
        rewards = self._rewards.get((policy_view, rm, view, item))
        rating = self._ratings.get((rm, view, item))
        if rewards is None or rating is None:
            return "not rated yet"
        if rewards.unscored is not None:
            return rewards.unscored
        if rating.rating.scores is None:
            return rating.rating.unscored or "unscored"
        return rating.rating.scores, likelihood.answers, rewards.rewards


def _token_log_probabilities(answer: AnswerTokens, rewards: Sequence[Sequence[float]], weight: float | None) -> Floats:
    """The log-probability of each token of a response under the tilted policy; at the limit in two rows, of which the
    second decides where the first is equal."""
    candidates = answer.candidates
    width = max(len(tokens) for tokens, _, _ in candidates)
    values = np.full((len(candidates), width), -np.inf)
    worth = np.zeros((len(candidates), width))
    for place, ((_, likely, _), own) in enumerate(zip(candidates, rewards, strict=True)):
        values[place, : len(likely)] = likely
        worth[place, : len(own)] = own
    chosen = [own for _, _, own in candidates]
    if weight is None:
        return np.stack(limit(values, worth, chosen))
    return tilted(values, worth, chosen, weight)[None]


def _credit(totals: Sequence[Floats], preferred: int) -> float:
    """Of responses that are compared by their first number, and by their second where the first is equal."""
    keys = [tuple(np.round(total, DIGITS)) for total in totals]
    order = sorted(set(keys))
    return credit([order.index(key) for key in keys], preferred)


def over_alone(credits: Mapping[Names, Credits]) -> dict[Weighted, Floats]:
    """What steering changes in policy accuracy, for each item."""
    return {
        (one, weight): right - found.normalised[0.0]
        for one, found in credits.items()
        for weight, right in found.normalised.items()
        if weight != 0
    }


def personal(
    credits: Mapping[Names, Credits], views: Sequence[ViewSpec], shows: Mapping[str, NDArray[np.bool_]]
) -> Iterator[Against]:
    """What the user's own view brings: to reward accuracy, and at each weight to policy accuracy."""
    policy_views = list(dict.fromkeys(policy_view for policy_view, _, _ in credits))
    for place, policy_view in enumerate(policy_views):
        seeing = f" (policy sees {policy_view})" if len(policy_views) > 1 else ""
        for rm in dict.fromkeys(rm for _, rm, _ in credits):
            own = {view: found for (shown, name, view), found in credits.items() if (shown, name) == (policy_view, rm)}
            if place == 0:
                columns = {view: found.reward for view, found in own.items()}
                yield from against(rm, "reward accuracy", columns, views, shows)
            for weight in next(iter(own.values())).normalised:
                if weight != 0:
                    columns = {view: found.normalised[weight] for view, found in own.items()}
                    yield from against(f"{guided_by(rm, weight)}{seeing}", "policy accuracy", columns, views, shows)


def guided_by(rm: str, weight: float | None) -> str:
    """Who guides how strongly, in words."""
    return f"guided by {rm} at {'large weights' if weight is None else f'weight {weight:g}'}"


def pair_results(
    credits: Mapping[Names, Credits],
    gains: Mapping[Weighted, PairedTest | None],
    clusters: NDArray[np.intp],
    users: NDArray[np.str_],
    resamples: Resamples,
) -> list[PairResult]:
    """One for each reward model and view."""
    return [
        _result(
            one,
            found,
            {weight: gains.get((one, weight)) for weight in found.normalised},
            clusters,
            users,
            resamples,
        )
        for one, found in credits.items()
    ]


def _result(
    names: Names,
    credits: Credits,
    gains: dict[float | None, PairedTest | None],
    clusters: NDArray[np.intp],
    users: NDArray[np.str_],
    resamples: Resamples,
) -> PairResult:
    has = ~np.isnan(credits.reward)
    columns: list[tuple[Floats, tuple[float, float]]] = [(credits.reward, SHARE)]
    for weight, right in credits.normalised.items():
        columns += [(right, SHARE), (credits.whole[weight], SHARE)]
    reward, *others = figures(columns, clusters, resamples)
    found = iter(others)
    accuracies = []
    for weight, normalised, whole in zip(credits.normalised, found, found, strict=True):
        if normalised is not None and whole is not None:
            gain = gains[weight]
            accuracies.append(
                PolicyAccuracy(
                    weight=weight,
                    normalised=normalised,
                    whole=whole,
                    over_alone=_figure(gain),
                    q=gain.q if gain else None,
                )
            )
    policy_view, rm, view = names
    return PairResult(
        policy_view=policy_view,
        rm=rm,
        view=view,
        n=int(has.sum()),
        users=len(set(users[has])),
        left_out=sum(credits.reasons.values()),
        reasons=credits.reasons,
        reward_accuracy=reward,
        policy_accuracy=accuracies,
    )


def _figure(gain: PairedTest | None) -> Figure:
    """The policy alone is no gain over itself."""
    return Figure(value=gain.difference, low=gain.low, high=gain.high) if gain else Figure(value=0.0, low=0.0, high=0.0)
