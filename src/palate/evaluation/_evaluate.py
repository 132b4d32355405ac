"""The measurement itself: every model rates every item under every view, and nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from palate.data import load_benchmark
from palate.engine import open_by_spec
from palate.evaluation._asks import in_benchmark_order, make_ask
from palate.evaluation._metrics import summarise
from palate.evaluation._results import Summary
from palate.evaluation._run import RatedItem, RatingLine, Run, RunWriter
from palate.evaluation._settings import Settings
from palate.records import Benchmark, Comparison, PalateError, Rating, RewardModel, View
from palate.rewards import rate
from palate.runs import LoadedModel, Report, load_models, sample_items
from palate.runs._folder import json_lines
from palate.stats._units import Resample
from palate.views import STRANGERS, WRITTEN, Missing, ViewBuilder, ViewSpec, Writer, drawn, parse_budget, resolve_views


def evaluate(
    benchmark: str | Path | Benchmark,
    reward_models: Sequence[str | RewardModel],
    views: Sequence[str] | None = None,
    *,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    strangers: int = STRANGERS,
    limit: int | None = None,
    resample: Resample = "auto",
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Report | None = None,
) -> Summary:
    """Measure reward models on what individual users prefer.

    The same call goes on where an earlier one stopped. A reward model may be given by its name or
    as an object; an object without a `fingerprint` starts a new run each time, since nothing tells
    whether it is the same as before. `resample` says what the intervals are about: new users, or new users and
    items; by default also items, where users judge the same ones.
    """
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")
    if not isinstance(benchmark, Benchmark):
        benchmark = load_benchmark(benchmark, data_dir=Path(data_dir) if data_dir else None)
    items = sample_items(benchmark.comparisons, limit, seed)
    if not items:
        raise PalateError(
            f"{benchmark.card.name} has no comparisons to rate"
            + (f", only {len(benchmark.completions)} completions" if benchmark.completions else "")
        )
    models = load_models(reward_models)
    allowance = parse_budget(budget) if budget else None
    specs = resolve_views(views or default_views(benchmark), strangers=strangers)
    written = any(spec.shows(kind) for spec in specs for kind in WRITTEN)
    author = Writer(open_by_spec(writer)) if written else None
    builder = ViewBuilder(benchmark, retriever=retriever, budget=allowance, seed=seed, writer=author)
    for spec in specs:
        builder.require(spec)
    ranks = written or any(spec.shows("posts") or spec.shows("judgements") for spec in specs)
    settings = Settings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        models=[model.settings for model in models],
        views=specs,
        retriever=retriever,
        retriever_fingerprint=builder.retriever.fingerprint if ranks else "",
        writer=author.fingerprint if author else None,
        budget=allowance,
        limit=limit,
        seed=seed,
    )
    rated = (rated_item(item, benchmark) for item in items)
    run = Run.create_or_resume(Path(out), settings, {"items.jsonl": json_lines(rated)})
    with RunWriter(run) as opened:
        _rate_all(opened, models, specs, items, builder, seed, progress or (lambda what, done, total: None))
    return summarise(run, resample=resample)


def default_views(benchmark: Benchmark) -> list[str]:
    """What a result must show: no profile, the richest profile there is, a stranger's, and the truth."""
    users = benchmark.users.values()
    history = []
    if any(user.posts for user in users):
        history.append("posts:5")
    if any(user.judgements for user in users):
        history.append("judgements:4")
    if not history:
        history = [kind for kind in ("demographics", "values") if any(getattr(user, kind) for user in users)]
    views = ["none"]
    if history:
        views.append("+".join(history))
        if len(benchmark.users) > 1:
            views.append("swapped")
    if any(item.privileged.aspects for item in benchmark.comparisons):
        views.append("oracle")
    return views


def _rate_all(
    writer: RunWriter,
    models: Sequence[LoadedModel],
    specs: Sequence[ViewSpec],
    items: Sequence[Comparison],
    builder: ViewBuilder,
    seed: int,
    progress: Report,
) -> None:
    total = len(models) * len(drawn(specs)) * len(items)
    chunk = max(model.batch_size for model in models)
    for spec, draw in drawn(specs):
        for start in range(0, len(items), chunk):
            some = items[start : start + chunk]
            waiting = [
                (model, [item for item in some if (model.settings.label, spec.name, item.id, draw) not in writer.done])
                for model in models
            ]
            if not any(pending for _, pending in waiting):
                continue
            views = dict(zip((item.id for item in some), builder.build(spec, some, draw), strict=True))
            writer.add_views(((item, view) for item, view in views.items() if isinstance(view, View)), draw)
            for model, pending in waiting:
                for first in range(0, len(pending), model.batch_size):
                    progress(f"{model.settings.label}, {spec.name}{model.status}", len(writer.done), total)
                    batch = pending[first : first + model.batch_size]
                    ratings = rate_items(model.model, batch, views, seed)
                    label = model.settings.label
                    writer.add_ratings(
                        RatingLine(rm=label, view=spec.name, item=item.id, draw=draw, rating=rating)
                        for item, rating in zip(batch, ratings, strict=True)
                    )
    progress("done", len(writer.done), total)


def rate_items(
    model: RewardModel, items: Sequence[Comparison], views: Mapping[str, View | Missing], seed: int
) -> list[Rating]:
    """A rating for each item, in the order of its own responses; unscored where it has no view."""
    asks = [make_ask(item, view, seed) for item in items if isinstance(view := views[item.id], View)]
    rated = iter(rate(model, asks) if asks else [])
    return [
        Rating(unscored=view.reason)
        if isinstance(view := views[item.id], Missing)
        else in_benchmark_order(next(rated), item, seed)
        for item in items
    ]


def rated_item(item: Comparison, benchmark: Benchmark) -> RatedItem:
    """The comparison as a run keeps it."""
    traits = benchmark.users[item.user_id].demographics
    return RatedItem(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        responses=item.responses,
        preferred=item.preferred,
        category=item.category,
        difficulty=item.difficulty,
        twin=item.twin,
        group=item.group,
        traits={name: value for name, value in traits.items() if isinstance(value, str)},
    )
