"""From the parts of a table to its rows, its differences, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palate.downstream._best_of_n import summarise_best_of_n
from palate.downstream._best_of_n._findings import about_left_out, about_samples
from palate.downstream._guide import summarise_guide
from palate.downstream._guide._figures import figures, mean_totals
from palate.downstream._guide._findings import about_texts
from palate.downstream._steer._findings import findings
from palate.downstream._steer._methods import LIKENESS, Method, Parts
from palate.downstream._steer._results import Measure, SteerDifference, SteerRow, SteerSummary
from palate.downstream._steer._run import SteerRun
from palate.evaluate import (
    GAIN,
    SHARE,
    Finding,
    Floats,
    Quantity,
    Ratings,
    Resamples,
    independent_clusters,
    paired_differences,
    ratio,
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
    found = _differences(_asked(methods), clusters, users, resamples)
    best, guided = run.best_of(settings.best_of_n).settings, run.guided().settings
    complete, about = _about_parts(run)
    return SteerSummary(
        run=str(run.folder),
        benchmark=f"{settings.benchmark.name} {settings.benchmark.version}",
        benchmark_title=settings.benchmark.title,
        benchmark_hash=settings.content_hash,
        licence=settings.benchmark.licence,
        policy=settings.policy,
        view=settings.view,
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
    """Every method over the policy alone with the same decoding; reward models' texts over in-context learning's."""
    alone = {method.decoding: method for method in methods if method.kind == "none"}
    in_context = [method for method in methods if method.kind == "in-context"]
    asked: list[Asked] = []
    for method in methods:
        if method.kind == "none":
            continue
        asked += [("over none", method, alone[method.decoding], measure) for measure in LIKENESS]
        if method.kind == "guided" or (method.kind == "in-context" and method.decoding == "sampled"):
            asked.append(("over none", method, alone[method.decoding], "policy"))
        if method.kind in ("best-of-n", "guided"):
            rivals = [one for one in in_context if one.decoding == method.decoding]
            asked += [("steered or in context", method, rival, "rouge1") for rival in rivals]
    return [one for one in asked if one[3] in one[1].columns and one[3] in one[2].columns]


def _differences(
    asked: Sequence[Asked], clusters: NDArray[np.intp], users: NDArray[np.str_], resamples: Resamples
) -> list[SteerDifference]:
    """Every difference that there is, with its test, the false discovery rate held over all of them."""
    values: list[Floats] = [one.columns[measure] - other.columns[measure] for _, one, other, measure in asked]
    ranges = [GAIN if measure in SHARES else (-2.0, 2.0) for *_, measure in asked]
    there = [index for index, column in enumerate(values) if not np.isnan(column).all()]
    means = [
        Quantity(mean_totals(values[index], clusters, resamples.n_clusters), ratio, ranges[index]) for index in there
    ]
    found = []
    for index, difference in zip(there, paired_differences(means, resamples), strict=True):
        about, one, other, measure = asked[index]
        has = ~np.isnan(values[index])
        found.append(
            SteerDifference(
                about=about,
                one=one.label,
                other=other.label,
                measure=measure,
                n=int(has.sum()),
                users=len(set(users[has])),
                difference=difference.value,
                low=difference.low,
                high=difference.high,
                p=difference.p,
                q=difference.q,
                carried_by=difference.carried_by,
            )
        )
    return found


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
