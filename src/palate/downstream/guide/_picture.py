"""The pictures of the page: what the weight of the reward does to policy accuracy, and to what is written."""

from __future__ import annotations

import math

from palate.downstream.guide._results import GuideSummary, PairResult, TextResult
from palate.report import IN_PERCENT, SCORES, Across, Chart, Step, draw_curves
from palate.stats import Figure

AXIS = "weight of the reward"


def accuracy_plots(summary: GuideSummary) -> list[Chart]:
    """For each policy view: policy accuracy per token against the weight, beside reward accuracy."""
    return list(filter(None, (_accuracies(summary, view) for view in _policy_views(summary))))


def score_plots(summary: GuideSummary) -> list[Chart]:
    """For each policy view: the critic's score against the weight, beside that of the policy alone."""
    return list(filter(None, (_scores(summary, view) for view in _policy_views(summary))))


def _results(summary: GuideSummary) -> list[PairResult | TextResult]:
    return [*summary.accuracies, *summary.texts]


def _policy_views(summary: GuideSummary) -> list[str]:
    return list(dict.fromkeys(one.policy_view for one in _results(summary)))


def _accuracies(summary: GuideSummary, policy_view: str) -> Chart | None:
    curves: dict[str, list[Step]] = {}
    across = []
    for one in summary.accuracies:
        if one.policy_view == policy_view and one.policy_accuracy:
            name = _name(summary, one)
            curves[name] = [_step(point.weight, point.normalised) for point in one.policy_accuracy]
            if one.reward_accuracy is not None:
                across.append(Across(f"reward accuracy of {name}", one.reward_accuracy.value, name))
    return draw_curves(
        curves,
        IN_PERCENT,
        title=f"Policy accuracy per token, policy seeing {policy_view}",
        axis=AXIS,
        step="weight {}",
        across=across,
        grey_first=False,
    )


def _scores(summary: GuideSummary, policy_view: str) -> Chart | None:
    """Every curve begins with the policy alone, whose weight is 0."""
    texts = [one for one in summary.texts if one.policy_view == policy_view and one.score is not None]
    alone = next((one.score for one in texts if not one.rm), None)
    curves: dict[str, list[Step]] = {}
    for one in texts:
        if one.rm and one.score is not None:
            start = [] if alone is None else [_step(0.0, alone)]
            curves.setdefault(_name(summary, one), start).append(_step(one.weight, one.score))
    return draw_curves(
        curves,
        SCORES,
        title=f"The critic's score, policy seeing {policy_view}",
        axis=AXIS,
        step="weight {}",
        across=[] if alone is None else [Across("the policy alone", alone.value)],
        grey_first=False,
    )


def _name(summary: GuideSummary, one: PairResult | TextResult) -> str:
    """The reward model, with what it sees of the user where guides see different things."""
    views = {other.view for other in _results(summary) if other.rm}
    return f"{one.rm}, {one.view}" if len(views) > 1 else one.rm


def _step(weight: float | None, found: Figure) -> Step:
    return Step(math.inf if weight is None else weight, found.value, found.low, found.high)
