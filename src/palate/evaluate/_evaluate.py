"""The measurement itself: every model rates every item under every view, and nothing is lost."""

from __future__ import annotations

import hashlib
import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from palate.data import load_benchmark
from palate.engine import open_by_spec
from palate.evaluate._asks import in_benchmark_order, make_ask, sample
from palate.evaluate._metrics import summarise
from palate.evaluate._results import Summary
from palate.evaluate._run import RatedItem, RatingLine, Run, RunWriter
from palate.evaluate._run_folder import json_lines
from palate.evaluate._settings import ModelSettings, Settings
from palate.evaluate._units import Resample
from palate.records import Benchmark, Comparison, PalateError, Rating, RewardModel, View
from palate.rewards import load_reward_model, rate
from palate.views import STRANGERS, WRITTEN, Missing, ViewBuilder, ViewSpec, Writer, drawn, parse_budget, resolve_views

BATCH = 256

Report = Callable[[str, int, int], None]
"""Told what is being rated, how much is done and how much there is in all."""


class LoadedModel(msgspec.Struct, frozen=True):
    """A reward model with its name in the tables and what identifies it."""

    settings: ModelSettings
    model: RewardModel

    @property
    def batch_size(self) -> int:
        """How many asks the model wants at once."""
        return max(1, int(getattr(self.model, "batch_size", BATCH)))

    @property
    def status(self) -> str:
        """What the model says of itself for the progress bar, such as tokens and money spent."""
        said = getattr(self.model, "status", None)
        return f" ({said()})" if said and said() else ""


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
    items = sample(benchmark.comparisons, limit, seed)
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


def load_models(reward_models: Sequence[str | RewardModel]) -> list[LoadedModel]:
    """Make every reward model, each with a label of its own."""
    if not reward_models:
        raise PalateError("name at least one reward model, for instance --rm embedding")
    loaded: list[tuple[RewardModel, dict[str, str]]] = []
    for given in reward_models:
        loaded.append(load_reward_model(given) if isinstance(given, str) else (given, _identity(given)))
    names = [model.name for model, _ in loaded]
    labels = [
        name if names.count(name) == 1 else f"{name} ({identity.get('spec', index)})"
        for index, (name, (_, identity)) in enumerate(zip(names, loaded, strict=True))
    ]
    repeated = {label for label in labels if labels.count(label) > 1}
    if repeated:
        raise PalateError(f"a reward model is named twice: {', '.join(sorted(repeated))}")
    return [
        LoadedModel(ModelSettings(label=label, identity=identity), model)
        for label, (model, identity) in zip(labels, loaded, strict=True)
    ]


def _identity(model: RewardModel) -> dict[str, str]:
    """An object's class tells what it does; only its fingerprint tells what it holds."""
    kind = type(model)
    try:
        source = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        source = "unknown"
    fingerprint = getattr(model, "fingerprint", None) or f"unknown, drawn {secrets.token_hex(8)}"
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "source": source, "fingerprint": str(fingerprint)}


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
