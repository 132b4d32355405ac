"""Evaluations as a kind of run: every model rates every item under every view, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from palate.data import Digests, digest_of
from palate.engine import CHARACTERS
from palate.evaluation._document import evaluation_document
from palate.evaluation._items import item_cards
from palate.evaluation._metrics import browsed_with, summarise
from palate.evaluation._ratings import MOST_BROWSED
from palate.evaluation._results import Summary
from palate.evaluation._run import (
    COSTS,
    ITEMS,
    LEDGERS,
    RATINGS,
    Settings,
    in_benchmark_order,
    make_ask,
    rated_item,
    rating_line,
)
from palate.records import Benchmark, Comparison, PalateError, RewardModel, View
from palate.report import Document, ItemsWhenRead
from palate.runs import (
    Build,
    Experiment,
    Ledger,
    LoadedModel,
    Place,
    Progress,
    Reading,
    Run,
    RunWriter,
    Tell,
    add_views,
    as_benchmark,
    begin_run,
    cautioned,
    conclude,
    drawn_places,
    finishing_shard,
    is_written,
    json_lines,
    known_summary,
    load_models,
    no_progress,
    parse_shard,
    places,
    rate_missing,
    rating_place,
    sample_items,
    set_up,
    shard_items,
    shard_parent,
)
from palate.runs._experiment import DEFAULT_READING
from palate.stats import Resample
from palate.views import STRANGERS, Missing, ViewSpec, drawn, resolve_views


class Evaluation(Experiment[Settings, Summary]):
    """How often reward models score highest what the user preferred; `palate train` measures its models so, too."""

    kind = "eval"
    command = "palate eval or palate train"
    settings = Settings
    summary = Summary
    options = ("read_again", "resample")

    def ledgers(self, settings: Settings) -> Sequence[Ledger[Any]]:
        """Items, what was shown of their users, and ratings; of trained models, what a user costs."""
        return LEDGERS if settings.split is None else (*LEDGERS, COSTS)

    def summarise(self, run: Run[Settings], reading: Reading = DEFAULT_READING) -> Summary:
        """Every number, from the raw ratings."""
        return summarise(run, again=reading.read_again, resample=reading.resample)

    def document(self, run: Run[Settings], summary: Summary, *, users: bool = True) -> Document:
        """Accuracies, gains and differences, user by user and in parts, and every item."""
        if not users:
            return evaluation_document(summary, [], left_out=summary.items)
        cards = ItemsWhenRead(lambda: item_cards(run, browsed_with(summary)))
        return evaluation_document(summary, cards, left_out=max(0, summary.items - MOST_BROWSED))

    def place(self, run: Run[Settings], ledger: Ledger[Any], batch: int) -> Place:
        """View by view; ratings by chunks of items, and model by model in each."""
        ids, views = [item.id for item in run.read(ITEMS)], drawn_places(drawn(run.settings.views))
        if ledger.name == RATINGS.name:
            models = places([model.label for model in run.settings.models])
            return rating_place(views, models, ids, batch, run)
        items = places(ids)
        return lambda line: (views[line.view, line.draw], items[line.item])


EVALUATION = Evaluation()


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
    shard: str | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Measure reward models on what individual users prefer.

    Call it again to resume. A reward model may be given by its name or as an object; an object without a
    `fingerprint` starts a new run each time, since nothing tells whether it is the same as before. `resample` says
    what the intervals are about: new users, or new users and items; by default also items, where users judge the same.
    `shard`, such as "3/8", rates the items of some users only; `merge_runs` joins the shards.
    """
    share = parse_shard(shard)
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(benchmark.comparisons, limit, seed)
    if not items:
        raise PalateError(
            f"{benchmark.card.name} has no comparisons to rate"
            + (f", only {len(benchmark.completions)} completions" if benchmark.completions else "")
        )
    specs = resolve_views(views or default_views(benchmark), strangers=strangers)
    models = cautioned(load_models(reward_models), specs, benchmark, items)
    setup = set_up(benchmark, items, specs, retriever=retriever, writer=writer, budget=budget, limit=limit, seed=seed)
    settings = Settings(**setup.settings, models=[model.settings for model in models], views=specs)
    own = shard_items(items, share)
    run = begin_run(
        shard_parent(out, share),
        EVALUATION,
        settings,
        {"items.jsonl": _item_lines(items, benchmark)},
    )
    reading = Reading(resample=resample)
    total, report = len(models) * len(drawn(specs)) * len(own), progress or no_progress
    if (known := known_summary(run, EVALUATION, reading)) is not None:
        return known
    with run.writing() as writing, finishing_shard(run, share, models):
        some: Sequence[Comparison] = ()
        for some in run.two_passes(
            own, items, None if any(map(is_written, specs)) else partial(_tokens, benchmark, own)
        ):
            rate_comparisons(
                writing,
                models,
                specs,
                some,
                setup.builder.build,
                seed,
                lambda what, more=0.0: report(what, len(writing.keys(RATINGS)) + more, total),
            )
        report("done", len(writing.keys(RATINGS)), total)
    del benchmark, items, own, some, setup  # the numbers follow from the folder, and need the room
    return conclude(run, EVALUATION, reading)


def _tokens(benchmark: Benchmark, items: Sequence[Comparison]) -> int:
    """Of all different texts that these items and any user's history hold, roughly."""
    seen, characters = Digests(), 0
    for text in _texts(benchmark, items):
        known = len(seen)
        if seen.add(digest_of(text)) == known:
            characters += len(text)
    return characters // CHARACTERS


def _texts(benchmark: Benchmark, items: Sequence[Comparison]) -> Iterator[str]:
    for item in items:
        yield from (item.prompt, *item.responses, *(part.aspect for part in item.privileged.aspects))
    for user in benchmark.users.values():
        yield from (post.text for post in user.posts)
        for past in user.judgements:
            yield from (past.prompt, past.reason or "", *past.responses)


def _item_lines(items: Sequence[Comparison], benchmark: Benchmark) -> Callable[[], Iterator[bytes]]:
    return lambda: json_lines(rated_item(item, benchmark) for item in items)


def rate_comparisons(
    writer: RunWriter,
    models: Sequence[LoadedModel],
    views: Sequence[ViewSpec],
    items: Sequence[Comparison],
    build: Build[Comparison],
    seed: int,
    tell: Tell,
) -> None:
    """Rate what is missing, each item with its responses in an order of its own, and keep what was shown."""

    def keep(spec: ViewSpec, draw: int, some: Sequence[Comparison], built: Sequence[View | Missing]) -> None:
        there = [(item, view) for item, view in zip(some, built, strict=True) if isinstance(view, View)]
        add_views(writer, spec, draw, [item for item, _ in there], [view for _, view in there])

    rate_missing(
        writer,
        RATINGS,
        models,
        views,
        items,
        build,
        line=rating_line,
        ask=lambda item, view: make_ask(item, view, seed),
        finish=lambda rating, item: in_benchmark_order(rating, item, seed),
        shown=keep,
        tell=tell,
    )


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
