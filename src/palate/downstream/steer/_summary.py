"""From the parts of a table to its rows, its differences, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._personal import Range, personal_findings, personal_gains, shared_prompts
from palate.downstream.best_of_n import BEST_OF_N
from palate.downstream.best_of_n._summary import about_left_out, about_samples
from palate.downstream.guide import GUIDE
from palate.downstream.guide._summary import about_texts
from palate.downstream.steer._methods import LIKENESS, Parts, SteerMethod
from palate.downstream.steer._results import Measure, SteerDifference, SteerRow, SteerSummary
from palate.downstream.steer._run import SteerSettings, guided_part, rated_part, sampled_part
from palate.evaluation import Ratings
from palate.records import PalateError
from palate.report import CLEAR, Finding, change_with_interval, count, named_chance, percent, warnings_first
from palate.runs import Run, common_fields
from palate.stats import GAIN, SHARE, Resamples, figures, independent_clusters, paired_tests

FEW_USERS = 30
COSINE = (-1.0, 1.0)
SHARES = ("reward", "policy", "rouge1", "rougeL")
"""Measures from 0 to 1."""
Asked = tuple[Literal["over none", "steered or in context"], SteerMethod, SteerMethod, Measure]


def summarise_steer(run: Run[SteerSettings]) -> SteerSummary:
    """Every number from the runs beside the table; no model is needed."""
    settings, parts = run.settings, Parts(run)
    if not parts.items:
        raise PalateError(f"{settings.best_of_n} holds no items any more; the table cannot be made")
    clusters = independent_clusters(parts.items)
    resamples = Resamples(int(clusters.max()) + 1, settings.seed)
    users = np.array([item.user_id for item in parts.items])
    methods = parts.methods()
    rows = _rows(methods, clusters, users, resamples)
    asked, personal = _asked(methods), list(parts.personal(methods))
    values = [(one.columns[measure] - other.columns[measure], _range(measure)) for _, one, other, measure in asked]
    tests = paired_tests([*values, *(one.column for one in personal)], clusters, users, resamples)
    found = [
        SteerDifference(about=about, one=one.label, other=other.label, measure=measure, **msgspec.structs.asdict(test))
        for (about, one, other, measure), test in zip(asked, tests, strict=False)
        if test is not None
    ]
    gains = personal_gains(personal, tests[len(asked) :])
    best, guided = sampled_part(run, settings.best_of_n).settings, guided_part(run).settings
    complete, about = _about_parts(run)
    about += [
        *parts.seen.warnings(settings.views),
        *shared_prompts(parts.items, clusters),
        *_alone_in_context(settings),
        *personal_findings(gains),
    ]
    return SteerSummary(
        **common_fields(
            run,
            items=len(parts.items),
            users=len(set(users)),
            complete=complete,
            findings=_findings(rows, found, resamples.n_clusters, about),
        ),
        policy=settings.policy,
        views=[view.name for view in settings.views],
        samples=best.drawing.samples,
        temperature=best.drawing.temperature,
        top_p=best.drawing.top_p,
        tokens=best.drawing.tokens,
        weight=settings.weight,
        top_k=guided.guiding.top_k,
        parts=settings.parts,
        rows=rows,
        differences=found,
        personal=gains,
        shown=parts.seen.summary(settings.views),
    )


def _rows(
    methods: Sequence[SteerMethod], clusters: NDArray[np.intp], users: NDArray[np.str_], resamples: Resamples
) -> list[SteerRow]:
    columns = [
        (values, SHARE if measure in SHARES else COSINE)
        for method in methods
        for measure, values in method.columns.items()
    ]
    found = iter(figures(columns, clusters, resamples))
    rows = []
    for method in methods:
        figure = {measure: next(found) for measure in method.columns}
        marked = ~np.isnan(method.columns.get("rouge1", np.full(len(users), np.nan)))
        rows.append(
            SteerRow(
                label=method.label,
                kind=method.kind,
                name=method.name,
                view=method.view,
                control=method.control,
                decoding=method.decoding,
                n=int(marked.sum()),
                users=len(set(users[marked])),
                reward=figure.get("reward"),
                policy=figure.get("policy"),
                rouge1=figure.get("rouge1"),
                rougeL=figure.get("rougeL"),
                embedding=figure.get("embedding"),
            )
        )
    return rows


def _asked(methods: Sequence[SteerMethod]) -> list[Asked]:
    """Every method over the policy alone with the same decoding; reward models' texts over in-context learning's, both
    seeing the user."""
    alone = {method.decoding: method for method in methods if method.kind == "none"}
    in_context = [method for method in methods if method.kind == "in-context" and not method.control]
    asked: list[Asked] = []
    for method in methods:
        if method.kind == "none":
            continue
        asked += [("over none", method, alone[method.decoding], measure) for measure in LIKENESS]
        if method.kind == "guided" or (method.kind == "in-context" and method.decoding == "sampled"):
            asked.append(("over none", method, alone[method.decoding], "policy"))
        if method.kind in ("best-of-n", "guided") and not method.control:
            rivals = [one for one in in_context if one.decoding == method.decoding]
            asked += [("steered or in context", method, rival, "rouge1") for rival in rivals]
    return [one for one in asked if one[3] in one[1].columns and one[3] in one[2].columns]


def _range(measure: Measure) -> Range:
    """What a difference by this measure can be."""
    return GAIN if measure in SHARES else (-2.0, 2.0)


def _alone_in_context(settings: SteerSettings) -> Iterator[Finding]:
    """Examples of the user's own without those of a stranger beside them."""
    there = {(one.spec.of, one.retriever) for one in settings.in_context}
    for one in settings.in_context:
        if one.spec.is_profile and (one.view, one.retriever) not in there:
            yield Finding(
                "warning",
                f"in context {one.name} has no stranger's examples to compare with, so this run cannot say whether its "
                f"gain is personal: add --in-context swapped:{one.name}",
            )


def _about_parts(run: Run[SteerSettings]) -> tuple[bool, list[Finding]]:
    """Whether all parts are done, and what to know of what they wrote."""
    settings = run.settings
    best = BEST_OF_N.summarise(sampled_part(run, settings.best_of_n))
    guided = GUIDE.summarise(guided_part(run))
    contexts = [
        BEST_OF_N.summarise(sampled_part(run, name))
        for one in settings.in_context
        for name in (one.sampled, one.greedy)
    ]
    rated = [settings.reward, settings.likelihood, *(one.likelihood for one in settings.in_context)]
    complete = guided.complete and all(one.complete for one in (best, *contexts))
    complete &= all(Ratings.of(rated_part(run, name)).missing == 0 for name in rated)
    policies = [one for part in (best, *contexts) for one in part.policies]
    said = [*about_samples(policies), *about_left_out(best.curves), *about_texts(guided.texts)]
    return complete, list({one.text: one for one in said}.values())


def _findings(
    rows: Sequence[SteerRow], differences: Sequence[SteerDifference], users: int, about: Sequence[Finding]
) -> list[Finding]:
    """Warnings first; `about` is what the parts say of what they wrote."""
    found = [*about]
    if users < FEW_USERS:
        found.append(Finding("warning", f"only {count(users, 'independent user')}: intervals from so few can mislead"))
    found += [*_over_none(differences), *_or_in_context(rows, differences), *_accuracies(rows, differences)]
    return warnings_first(found)


def _over_none(differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """By ROUGE-1: what is worse than the policy alone, what is better, and what is not established."""
    asked = [
        one for one in differences if one.about == "over none" and one.measure == "rouge1" and "(oracle)" not in one.one
    ]
    better = [f"{_said(one)}, {_q(one)}" for one in asked if one.q < CLEAR and one.difference > 0]
    worse = [f"{_said(one)}, {_q(one)}" for one in asked if one.q < CLEAR and one.difference < 0]
    unclear = [_said(one) for one in asked if one.q >= CLEAR]
    if worse:
        yield Finding("warning", f"by ROUGE-1 worse than the policy alone: {'; '.join(worse)}")
    if better:
        yield Finding("good", f"by ROUGE-1 better than the policy alone: {'; '.join(better)}")
    if unclear:
        yield Finding("note", f"by ROUGE-1 not established to differ from the policy alone: {'; '.join(unclear)}")


def _or_in_context(rows: Sequence[SteerRow], differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """Does any text that a reward model steered beat in-context learning?"""
    asked = [one for one in differences if one.about == "steered or in context"]
    if not asked:
        return
    better = [one for one in asked if one.q < CLEAR and one.difference > 0]
    worse = [one for one in asked if one.q < CLEAR and one.difference < 0]
    for one in better:
        yield Finding("good", f"{one.one} beats {one.other}: ROUGE-1 {change_with_interval(one)}, {_q(one)}")
    if worse:
        names = "; ".join(f"{one.other} over {one.one} {change_with_interval(one)}" for one in worse)
        yield Finding("note", f"in-context learning is ahead by ROUGE-1 (the other minus in-context learning): {names}")
    if not better:
        steered = sum(row.kind in ("best-of-n", "guided") and not row.control for row in rows)
        rest = len(asked) - len(worse)
        open_ones = f"; {rest} of {len(asked)} comparisons are open" if rest else ""
        yield Finding(
            "note", f"None of {steered} reward-steered methods is shown to beat in-context learning{open_ones}"
        )


def _accuracies(rows: Sequence[SteerRow], differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """Reward accuracy beside what the guided policy makes of it."""
    over = {one.one: one for one in differences if one.about == "over none" and one.measure == "policy"}
    for row in rows:
        if row.kind != "guided" or row.control or row.reward is None or row.policy is None or row.label not in over:
            continue
        gain = over[row.label]
        clear = gain.q < CLEAR
        points = f"{100 * gain.difference:+.1f} points over the policy's own likelihood"
        yield Finding(
            "good" if clear and gain.difference > 0 else "warning" if clear else "note",
            f"{row.name} seeing {row.view} picks the user's text in {percent(row.reward.value)} of pairs; the policy "
            f"that it guides prefers that text in {percent(row.policy.value)}, {points}, "
            + (_q(gain) if clear else "not established"),
        )


def _said(one: SteerDifference) -> str:
    return f"{one.one} {change_with_interval(one)}"


def _q(one: SteerDifference) -> str:
    return named_chance("q", one.q)
