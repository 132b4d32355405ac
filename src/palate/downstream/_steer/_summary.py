"""From the parts of a table to its rows, its differences, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._best_of_n import summarise_best_of_n
from palate.downstream._best_of_n._findings import about_left_out, about_samples
from palate.downstream._guide import summarise_guide
from palate.downstream._guide._figures import figures
from palate.downstream._guide._findings import about_texts
from palate.downstream._personal import Range, personal_findings, personal_gains, shared_prompts, tested
from palate.downstream._steer._findings import findings
from palate.downstream._steer._methods import LIKENESS, Method, Parts
from palate.downstream._steer._results import Measure, SteerDifference, SteerRow, SteerSummary
from palate.downstream._steer._run import SteerRun, SteerSettings
from palate.evaluate import (
    GAIN,
    SHARE,
    Finding,
    Ratings,
    Resamples,
    independent_clusters,
)
from palate.records import PalateError

COSINE = (-1.0, 1.0)
SHARES = ("reward", "policy", "rouge1", "rougeL")
"""Measures from 0 to 1."""
Asked = tuple[Literal["over none", "steered or in context"], Method, Method, Measure]


def summarise_steer(run: SteerRun) -> SteerSummary:
    """Every number anew from the runs beside the table; no model is needed."""
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
    tests = tested([*values, *(one.column for one in personal)], clusters, users, resamples)
    found = [
        SteerDifference(about=about, one=one.label, other=other.label, measure=measure, **msgspec.structs.asdict(test))
        for (about, one, other, measure), test in zip(asked, tests, strict=False)
        if test is not None
    ]
    gains = personal_gains(personal, tests[len(asked) :])
    best, guided = run.best_of(settings.best_of_n).settings, run.guided().settings
    complete, about = _about_parts(run)
    about += [
        *parts.seen.warnings(settings.views),
        *shared_prompts(parts.items, clusters),
        *_alone_in_context(settings),
        *personal_findings(gains),
    ]
    return SteerSummary(
        run=str(run.folder),
        benchmark=f"{settings.benchmark.name} {settings.benchmark.version}",
        benchmark_title=settings.benchmark.title,
        benchmark_hash=settings.content_hash,
        licence=settings.benchmark.licence,
        policy=settings.policy,
        views=[view.name for view in settings.views],
        samples=best.drawing.samples,
        temperature=best.drawing.temperature,
        top_p=best.drawing.top_p,
        tokens=best.drawing.tokens,
        weight=settings.weight,
        top_k=guided.guiding.top_k,
        seed=settings.seed,
        items=len(parts.items),
        users=len(set(users)),
        complete=complete,
        parts=settings.parts,
        rows=rows,
        differences=found,
        personal=gains,
        shown=parts.seen.summary(settings.views),
        findings=findings(rows, found, resamples.n_clusters, about),
    )


def _rows(
    methods: Sequence[Method], clusters: NDArray[np.intp], users: NDArray[np.str_], resamples: Resamples
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


def _asked(methods: Sequence[Method]) -> list[Asked]:
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
                f"in context {one.name} stands without a stranger's beside it, so whether what it brings is personal "
                f"cannot be told: add --in-context swapped:{one.name}",
            )


def _about_parts(run: SteerRun) -> tuple[bool, list[Finding]]:
    """Whether all parts are done, and what to know of what they wrote."""
    settings = run.settings
    best, guided = summarise_best_of_n(run.best_of(settings.best_of_n)), summarise_guide(run.guided())
    contexts = [
        summarise_best_of_n(run.best_of(name)) for one in settings.in_context for name in (one.sampled, one.greedy)
    ]
    rated = [settings.reward, settings.likelihood, *(one.likelihood for one in settings.in_context)]
    complete = guided.complete and all(one.complete for one in (best, *contexts))
    complete &= all(Ratings.of(run.rated(name)).missing == 0 for name in rated)
    policies = [one for part in (best, *contexts) for one in part.policies]
    said = [*about_samples(policies), *about_left_out(best.curves), *about_texts(guided.texts)]
    return complete, list({one.text: one for one in said}.values())
