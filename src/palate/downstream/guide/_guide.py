"""Guided decoding: a reward model steers what a policy writes, and policy accuracy says whether it can."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palate.downstream._critics import as_critic
from palate.downstream._personal import personal_views
from palate.downstream._policy import Drawing, open_policy
from palate.downstream.guide._guiding import Guiding, checked_weights
from palate.downstream.guide._measure import Measurement
from palate.downstream.guide._measure_pairs import measure_pairs
from palate.downstream.guide._measure_texts import measure_texts
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._run import GuideItem, GuideRun, GuideWriter
from palate.downstream.guide._settings import GuideSettings
from palate.downstream.guide._summary import summarise_guide
from palate.engine import LanguageModel, LocalModel, in_process
from palate.records import Benchmark, Comparison, Critic, PalateError, RewardModel
from palate.rewards import follow
from palate.runs import (
    Fingerprint,
    Item,
    Progress,
    as_benchmark,
    json_lines,
    keep_views,
    load_models,
    prompts,
    ranks,
    sample_items,
    writer_of,
)
from palate.views import ViewBuilder, parse_budget, resolve_views


def guide(
    benchmark: str | Path | Benchmark,
    policy: str | LanguageModel,
    reward_models: Sequence[str | RewardModel],
    critic: str | Critic | None = None,
    *,
    views: Sequence[str] | None = None,
    policy_views: Sequence[str] = ("none",),
    guiding: Guiding | None = None,
    weights: Sequence[float] | None = None,
    accuracy: bool = True,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> GuideSummary:
    """Measure what reward models are worth when they steer a policy while it writes.

    On comparisons: does the steered policy give more to what the user preferred (policy accuracy)? With a critic: is
    what it writes, at each weight of the reward, worth more than what it writes alone? The same call goes on where an
    earlier one stopped. With `accuracy=False` comparisons serve as prompts only. By default reward models see nothing
    of the user, the richest profile there is, and one stranger's profile of the same kind.
    """
    guiding = guiding or Guiding()
    guiding.check()
    ladder = checked_weights(weights)
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(prompts(benchmark), limit, seed)
    if critic is None:
        _require_accuracy(benchmark, items, asked=accuracy)
    accuracy = accuracy and any(isinstance(item, Comparison) for item in items)
    # A text is written for each stranger, so that there is one for each item.
    shown, seen = (resolve_views(some, strangers=1) for some in (policy_views, views or personal_views(benchmark)))
    judge = None if critic is None else as_critic(critic, benchmark)
    if judge is not None:
        judge.require(items)
    allowance = parse_budget(budget) if budget else None
    author = writer_of((*shown, *seen), writer)
    builder = ViewBuilder(benchmark, retriever=retriever, budget=allowance, seed=seed, writer=author)
    for spec in (*shown, *seen):
        builder.require(spec)
    model = _guidable(policy, guiding)
    models = load_models(reward_models)
    for one in models:
        follow(one.model, [])  # what cannot guide is told now, and not after an hour
    settings = GuideSettings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        policy=Fingerprint(model.name, model.fingerprint),
        policy_views=shown,
        guiding=guiding,
        weights=ladder,
        reward_models=[one.settings for one in models],
        views=seen,
        critic=None if judge is None else Fingerprint(judge.name, judge.fingerprint),
        accuracy=accuracy,
        retriever=retriever,
        retriever_fingerprint=builder.retriever.fingerprint if any(map(ranks, (*shown, *seen))) else "",
        writer=author.fingerprint if author else None,
        budget=allowance,
        limit=limit,
        seed=seed,
    )
    run = GuideRun.create_or_resume(Path(out), settings, {"items.jsonl": json_lines(map(_kept, items))})
    given = Measurement(
        settings=settings,
        items=items,
        policy=model,
        builder=builder,
        models=models,
        critic=judge,
        report=progress or (lambda what, done, total: None),
    )
    with GuideWriter(run) as opened:
        keep_views(run.folder, builder, (*shown, *seen), items)
        if accuracy:
            measure_pairs(given, opened)
        if judge is not None:
            measure_texts(given, opened, judge)
        given.tell("done", opened)
    return summarise_guide(run)


def _require_accuracy(benchmark: Benchmark, items: Sequence[Item], *, asked: bool) -> None:
    """Without a critic there has to be policy accuracy to measure."""
    if not asked:
        raise PalateError(
            "with --no-accuracy and without a critic there is nothing to measure; name one with --critic, such as "
            "reference"
        )
    if not any(isinstance(item, Comparison) for item in items):
        raise PalateError(
            f"{benchmark.card.name} has no comparisons on which to measure policy accuracy, and without a critic "
            "nobody says what a text is worth; name one with --critic, such as reference"
        )


def _guidable(policy: str | LanguageModel, guiding: Guiding) -> LocalModel:
    """The policy itself: guiding takes the probabilities of all its next tokens, which servers do not tell."""
    model = open_policy(policy, Drawing(samples=1, tokens=guiding.tokens))
    inner = in_process(model)
    if inner is None:
        raise PalateError(
            f"the policy {model.name} runs behind a server, which does not tell how likely every next token is; "
            "guided decoding needs it in this process, without url="
        )
    inner.steps([])
    return inner


def _kept(item: Item) -> GuideItem:
    pair = item if isinstance(item, Comparison) else None
    return GuideItem(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        category=item.category,
        twin=pair.twin if pair else None,
        responses=pair.responses if pair else (),
        preferred=pair.preferred if pair else None,
    )
