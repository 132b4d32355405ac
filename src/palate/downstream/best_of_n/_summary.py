"""From the raw samples, ratings and marks of a run to every number that is reported."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from palate.downstream._choice import divergence_bound
from palate.downstream._items import ITEMS
from palate.downstream.best_of_n._differences import Asked, differences
from palate.downstream.best_of_n._expectations import Chooser, Expectations, Expected
from palate.downstream.best_of_n._findings import findings
from palate.downstream.best_of_n._results import BestOfNSummary, Curve, Point, PolicySamples
from palate.downstream.best_of_n._run import BestOfNSettings
from palate.records import PalateError
from palate.runs import Run, common_fields
from palate.stats import Estimate, Floats, Quantity, Resamples, intervals, ratio


def summarise_best_of_n(run: Run[BestOfNSettings]) -> BestOfNSummary:
    """Every number anew from the folder; no model is needed."""
    settings = run.settings
    if not list(run.read(ITEMS)):
        raise PalateError(f"{run.folder / 'items.jsonl'} holds no items; the run cannot be read")
    expectations = Expectations(run)
    resamples = Resamples(expectations.n_clusters, settings.seed)
    policies = [_policy(expectations, view.name, bool(view.pieces)) for view in settings.policy_views]
    curves = _curves(expectations, resamples)
    found, personal = differences(expectations, _asked(expectations), resamples)
    return BestOfNSummary(
        **common_fields(
            run,
            items=len(expectations.items),
            users=expectations.count_users(),
            complete=expectations.complete,
            findings=findings(expectations, policies, curves, found, personal, resamples),
        ),
        policy=settings.policy.name,
        critic=settings.critic.name,
        drawn=settings.drawing.samples,
        temperature=settings.drawing.temperature,
        top_p=settings.drawing.top_p,
        tokens=settings.drawing.tokens,
        policies=policies,
        curves=curves,
        differences=found,
        personal=personal,
        shown=expectations.seen.summary(settings.views),
    )


def _policy(expectations: Expectations, policy_view: str, shows: bool) -> PolicySamples:
    drawn = [line for (view, _), line in expectations.samples.items() if view == policy_view]
    lines = expectations.sampled(policy_view)
    texts = [text for line in lines for text in line.texts]
    return PolicySamples(
        policy_view=policy_view,
        sampled=len(lines),
        failed=len(drawn) - len(lines),
        reasons=dict(Counter(line.failed for line in drawn if line.failed is not None)),
        samples=len(texts),
        empty=sum(not text.strip() for text in texts),
        unfinished=sum(len(line.unfinished) for line in lines),
        distinct=float(np.mean([len(set(line.texts)) / len(line.texts) for line in lines])) if lines else None,
        mean_tokens=float(np.mean([count for line in lines for count in line.tokens])) if lines else None,
        unseen=sum(line.parts == 0 for line in lines) if shows else 0,
        shortened=sum(line.note is not None for line in lines),
    )


def _curves(expectations: Expectations, resamples: Resamples) -> list[Curve]:
    """All intervals of the run in one pass."""
    quantities: list[Quantity] = []
    for one, expected in expectations.choosers.items():
        for k in expectations.settings.steps:
            quantities.append(Quantity(_mean_totals(expectations, expected.scores[k]), ratio))
            quantities.append(_share(expectations, one, expected, k))
    estimates = iter(intervals(quantities, resamples))
    curves = []
    for one, expected in expectations.choosers.items():
        points = [_point(expected, k, next(estimates), next(estimates)) for k in expectations.settings.steps]
        curves.append(
            Curve(
                policy_view=one.policy_view,
                kind=one.kind,
                chooser=one.name,
                view=one.view,
                n=int(expected.has.sum()),
                users=expectations.count_users(expected.has),
                left_out=sum(expected.reasons.values()),
                reasons=expected.reasons,
                points=points,
            )
        )
    return curves


def _mean_totals(expectations: Expectations, values: Floats) -> Floats:
    has = ~np.isnan(values)
    return expectations.totals(np.where(has, values, 0.0), has.astype(float))


def _share(expectations: Expectations, one: Chooser, expected: Expected, k: int) -> Quantity:
    has = expected.has
    columns = [
        np.where(has, found.scores[k], 0.0)
        for found in (expected, expectations.beside(one, "random"), expectations.beside(one, "oracle"))
    ]
    return Quantity(expectations.totals(*columns), _reached)


def _reached(totals: Floats) -> Floats:
    """The gain over random as a share of the oracle's; nothing where there is no gain to be had."""
    gain, most = totals[..., 0] - totals[..., 1], totals[..., 2] - totals[..., 1]
    return np.asarray(gain / np.where(most > 1e-12 * np.abs(totals[..., 2]), most, np.nan))


def _point(expected: Expected, k: int, score: Estimate | None, share: Estimate | None) -> Point:
    scores, rewards = (values[k][expected.has] for values in (expected.scores, expected.rewards))
    return Point(
        k=k,
        divergence=divergence_bound(k),
        score=float(scores.mean()) if len(scores) else None,
        low=score.low if score else None,
        high=score.high if score else None,
        reward=float(rewards.mean()) if len(rewards) else None,
        oracle_share=share,
    )


def _asked(expectations: Expectations) -> list[Asked]:
    """Models over random and over each other at N, seeing the same; the user's examples over none; and the one against
    the other. What a model gains by seeing the user is asked elsewhere, where the view shows something."""
    top = expectations.settings.steps[-1]
    views = [view.name for view in expectations.settings.policy_views]
    plain = "none" if "none" in views else views[0]
    asked: list[Asked] = []
    for policy_view in views:
        chance = Chooser(policy_view=policy_view, kind="random", name="random")
        models = [one for one in expectations.choosers if one.policy_view == policy_view and one.kind == "model"]
        asked += [("over random", (model, top), (chance, top)) for model in models]
        asked += [
            ("between models", (one, top), (other, top))
            for one, other in combinations(models, 2)
            if one.view == other.view
        ]
    for policy_view in (view for view in views if view != plain):
        alone = Chooser(policy_view=policy_view, kind="random", name="random")
        chance = Chooser(policy_view=plain, kind="random", name="random")
        asked.append(("in context", (alone, 1), (chance, 1)))
        asked += [
            ("in context or best-of-n", (alone, 1), (model, top))
            for model in expectations.choosers
            if model.policy_view == plain and model.kind == "model"
        ]
    return asked
