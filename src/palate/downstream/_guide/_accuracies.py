"""Policy accuracy beside reward accuracy, with intervals over users and tests against the policy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream._guide._credits import Credits, Pairs
from palate.downstream._guide._figures import figures, mean_totals
from palate.downstream._guide._results import Figure, PairResult, PolicyAccuracy
from palate.evaluate import GAIN, SHARE, Floats, PairedDifference, Quantity, Resamples, paired_differences, ratio

Names = tuple[str, str, str]
"""Policy view, reward model, view."""


def pair_results(
    pairs: Pairs,
    asked: Sequence[Names],
    clusters: NDArray[np.intp],
    users: NDArray[np.str_],
    resamples: Resamples,
) -> list[PairResult]:
    """One for each reward model and view; the false discovery rate is held over all gains of the run."""
    credits = {one: pairs.credits(*one) for one in asked}
    gains = {
        (one, weight): mean_totals(right - found.normalised[0.0], clusters, resamples.n_clusters)
        for one, found in credits.items()
        for weight, right in found.normalised.items()
        if weight != 0
    }
    gains = {key: totals for key, totals in gains.items() if totals[:, 1].any()}
    tested = paired_differences([Quantity(totals, ratio, GAIN) for totals in gains.values()], resamples)
    found_gains = dict(zip(gains, tested, strict=True))
    return [
        _result(
            one,
            found,
            {weight: found_gains.get((one, weight)) for weight in found.normalised},
            clusters,
            users,
            resamples,
        )
        for one, found in credits.items()
    ]


def _result(
    names: Names,
    credits: Credits,
    gains: dict[float | None, PairedDifference | None],
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


def _figure(gain: PairedDifference | None) -> Figure:
    """The policy alone is no gain over itself."""
    return Figure(value=gain.value, low=gain.low, high=gain.high) if gain else Figure(value=0.0, low=0.0, high=0.0)
