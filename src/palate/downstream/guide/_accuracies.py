"""Policy accuracy beside reward accuracy, with intervals over users and tests against the policy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream._personal import Against, against
from palate.downstream.guide._credits import Credits
from palate.downstream.guide._results import PairResult, PolicyAccuracy
from palate.stats import SHARE, Figure, Floats, Resamples, Tested, figures
from palate.views import ViewSpec

Names = tuple[str, str, str]
"""Policy view, reward model, view."""
Weighted = tuple[Names, float | None]


def over_alone(credits: Mapping[Names, Credits]) -> dict[Weighted, Floats]:
    """What steering changes in policy accuracy, an item each."""
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
    gains: Mapping[Weighted, Tested | None],
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
    gains: dict[float | None, Tested | None],
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


def _figure(gain: Tested | None) -> Figure:
    """The policy alone is no gain over itself."""
    return Figure(value=gain.difference, low=gain.low, high=gain.high) if gain else Figure(value=0.0, low=0.0, high=0.0)
