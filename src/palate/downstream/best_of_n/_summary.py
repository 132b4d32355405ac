"""From the raw samples, ratings and grades of a run to every number that is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from palate.downstream._choice import divergence_bound
from palate.downstream._items import ITEMS
from palate.downstream._personal import (
    ANYWHERE,
    MANY_EMPTY,
    SCORE,
    Against,
    PersonalGain,
    against,
    personal_findings,
    personal_gains,
    shared_prompts,
)
from palate.downstream._samples import SampleLine
from palate.downstream.best_of_n._expectations import Chooser, Expectations, Expected
from palate.downstream.best_of_n._results import BestOfNDifference, BestOfNSummary, Choice, Curve, Point, PolicySamples
from palate.downstream.best_of_n._run import BestOfNSettings
from palate.records import PalateError
from palate.report import CLEAR, Finding, change_with_interval, commonest, count, named_chance, warnings_first
from palate.runs import LOST, Run, common_fields
from palate.stats import (
    Estimate,
    Floats,
    Quantity,
    Resamples,
    intervals,
    mean_totals,
    paired_differences,
    paired_tests,
    ratio,
)


def summarise_best_of_n(run: Run[BestOfNSettings]) -> BestOfNSummary:
    """Every number, recomputed from the folder; no model is needed."""
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
    known = {item.id for item in expectations.items}
    return samples_of([line for line in drawn if line.failed is not None or line.item in known], policy_view, shows)


def samples_of(drawn: Sequence[SampleLine], policy_view: str, shows: bool) -> PolicySamples:
    """What the policy wrote, from the lines of one policy view; `shows` where the view should show something."""
    lines = [line for line in drawn if line.failed is None]
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


About = Literal["over random", "between models", "in context", "in context or best-of-n"]
End = tuple[Chooser, int]
"""Who chooses, among how many."""
Asked = tuple[About, End, End]


def difference(expectations: Expectations, one: End, other: End) -> Floats:
    """An item each, nan where not both have it."""
    first, second = (expectations.choosers[chooser].scores[k] for chooser, k in (one, other))
    return np.asarray(first - second)


def differences(
    expectations: Expectations, asked: Sequence[Asked], resamples: Resamples
) -> tuple[list[BestOfNDifference], list[PersonalGain]]:
    """Every difference asked for, less those with no item in common; and what the user's own view brought.

    The false discovery rate is held over both together.
    """
    personal = list(_personal(expectations))
    columns = [(difference(expectations, one, other), ANYWHERE) for _, one, other in asked]
    columns += [one.column for one in personal]
    found = paired_tests(columns, expectations.clusters, expectations.users, resamples)
    plain = [
        BestOfNDifference(about=about, one=_choice(*one), other=_choice(*other), **msgspec.structs.asdict(test))
        for (about, one, other), test in zip(asked, found, strict=False)
        if test is not None
    ]
    return plain, personal_gains(personal, found[len(asked) :])


def _personal(expectations: Expectations) -> Iterator[Against]:
    """At the largest k, for each policy view and reward model; and of what the policy itself sees, for one sample."""
    settings = expectations.settings
    top, several = settings.steps[-1], len(settings.policy_views) > 1
    shows = {view.name: expectations.seen.shows(view.name) for view in settings.views}
    for policy_view in (view.name for view in settings.policy_views):
        for model in settings.reward_models:
            columns = {
                one.view or "": expected.scores[top]
                for one, expected in expectations.choosers.items()
                if (one.policy_view, one.kind, one.name) == (policy_view, "model", model.label)
            }
            who = f"best of {top} by {model.label}" + (f" (policy sees {policy_view})" if several else "")
            yield from against(who, SCORE, columns, settings.views, shows)
    alone = {
        one.policy_view: expected.scores[settings.steps[0]]
        for one, expected in expectations.choosers.items()
        if one.kind == "random"
    }
    shown = {view.name: expectations.policy_saw(view.name) for view in settings.policy_views}
    yield from against("the policy alone", SCORE, alone, settings.policy_views, shown)


def _choice(chooser: Chooser, k: int) -> Choice:
    return Choice(policy_view=chooser.policy_view, chooser=chooser.name, view=chooser.view, k=k)


MANY_CUT = 0.5
FEW_DISTINCT = 0.5


def findings(
    expectations: Expectations,
    policies: Sequence[PolicySamples],
    curves: Sequence[Curve],
    differences: Sequence[BestOfNDifference],
    personal: Sequence[PersonalGain],
    resamples: Resamples,
) -> list[Finding]:
    """Warnings first."""
    found = [
        *about_samples(policies),
        *expectations.seen.warnings(expectations.settings.views),
        *about_left_out(curves),
        *shared_prompts(expectations.items, expectations.clusters),
    ]
    found += [*_over_optimised(expectations, resamples), *personal_findings(personal)]
    found += [*_gains(differences), *_in_context(differences)]
    if expectations.lost:
        found.append(Finding("warning", LOST.format(count=expectations.lost)))
    return warnings_first(found)


def about_samples(policies: Sequence[PolicySamples]) -> Iterator[Finding]:
    """What to know of what a policy wrote: failures, empty texts, repeats, and what it could not see."""
    for one in policies:
        seeing = f"Seeing {one.policy_view}, the policy"
        if one.failed:
            yield Finding(
                "warning",
                f"{seeing} wrote nothing for {count(one.failed, 'item')}, which are left out: {commonest(one.reasons)}",
            )
        if not one.samples:
            continue
        if one.empty == one.samples:
            yield Finding("warning", f"{seeing} stopped at once every time: all {one.samples:,} samples are empty")
        elif one.empty > MANY_EMPTY * one.samples:
            yield Finding("warning", f"{seeing} wrote {one.empty:,} empty texts of {one.samples:,}")
        if one.distinct is not None and one.samples > one.sampled and one.distinct < FEW_DISTINCT:
            yield Finding(
                "warning",
                f"{seeing} repeats itself: only {one.distinct:.0%} of an item's samples differ, so there is little "
                "to choose from",
            )
        if one.unfinished > MANY_CUT * one.samples:
            yield Finding("note", f"{seeing} hit the token limit in {one.unfinished:,} of {one.samples:,} samples")
        if one.unseen:
            yield Finding(
                "warning" if one.unseen > MANY_EMPTY * one.sampled else "note",
                f"{seeing} saw nothing of the user for {count(one.unseen, 'item')}: the view is empty or did not fit",
            )
        if one.shortened:
            yield Finding(
                "note", f"{seeing} saw only part of the view for {count(one.shortened, 'item')}: the rest did not fit"
            )


def about_left_out(curves: Sequence[Curve]) -> Iterator[Finding]:
    """Items without a score, and why."""
    for curve in curves:
        if curve.left_out and curve.kind in ("model", "oracle"):
            who = f"{curve.chooser} seeing {curve.view}" if curve.kind == "model" else "the critic"
            lost = f"{who} (policy sees {curve.policy_view}): {count(curve.left_out, 'item')} left out, unscored"
            yield Finding("warning", f"{lost}; mostly: {commonest(curve.reasons)}")


def _over_optimised(expectations: Expectations, resamples: Resamples) -> Iterator[Finding]:
    """The reward of the choice cannot fall as k grows; the critic's score can.

    The best k is picked by its score, so an interval alone would cry wolf: the fall from every k counts as a test.
    """
    *steps, top = expectations.settings.steps
    models = [one for one, expected in expectations.choosers.items() if one.kind == "model" and expected.has.any()]
    tried = [(one, k) for one in models for k in steps]
    columns = [difference(expectations, (one, k), (one, top)) for one, k in tried]
    totals = [mean_totals(column, expectations.clusters, expectations.n_clusters) for column in columns]
    falls = dict(zip(tried, paired_differences([Quantity(total, ratio) for total in totals], resamples), strict=True))
    for one, peak in [max(((one, k) for k in steps), key=lambda key: falls[key].difference) for one in models if steps]:
        fall = falls[one, peak]
        if fall.low is not None and fall.low > 0 and fall.q < CLEAR:
            yield Finding(
                "warning",
                f"over-optimised: with {one.name} seeing {one.view} (policy sees {one.policy_view}), the reward keeps "
                f"rising, but the critic's score is best at k = {peak} and {fall.difference:.3f} lower at k = {top} "
                f"({fall.low:.3f} to {fall.high:.3f}), {named_chance('q', fall.q)}",
            )


def _gains(differences: Sequence[BestOfNDifference]) -> Iterator[Finding]:
    """What is clear gets a sentence of its own; what is not, one for each policy view."""
    unclear: dict[str, list[str]] = {}
    for one in differences:
        if one.about != "over random":
            continue
        who, view = f"{one.one.chooser} seeing {one.one.view}", one.one.policy_view
        said = change_with_interval(one)
        if one.q >= CLEAR:
            unclear.setdefault(view, []).append(f"{who} {said}")
            continue
        text = f"best of {one.one.k} by {who} (policy sees {view}) against random: {said}, {named_chance('q', one.q)}"
        yield Finding("good" if one.difference > 0 else "warning", text)
    for view, names in unclear.items():
        yield Finding("note", f"No clear difference from random where the policy sees {view}: {'; '.join(names)}")


def _in_context(differences: Sequence[BestOfNDifference]) -> Iterator[Finding]:
    for one in differences:
        if not one.about.startswith("in context"):
            continue
        other = one.other
        than = f"the same policy seeing {other.policy_view}"
        if one.about == "in context or best-of-n":
            than = f"best of {other.k} by {other.chooser} seeing {other.view} on samples that saw {other.policy_view}"
        said = f"{change_with_interval(one)}, {named_chance('q', one.q)}"
        clear = "" if one.q < CLEAR else ", not clear"
        text = (
            f"in-context learning alone (policy sees {one.one.policy_view}, one sample) against {than}: {said}{clear}"
        )
        better = one.q < CLEAR and one.difference > 0
        yield Finding("good" if better else "note", text)
