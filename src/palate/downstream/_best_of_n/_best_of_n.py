"""Best-of-N: a policy writes, a reward model chooses, a critic says what the choice is worth to this user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palate.downstream._best_of_n._measure import Measurement
from palate.downstream._best_of_n._results import BonSummary
from palate.downstream._best_of_n._run import BonRun, BonWriter, PromptItem
from palate.downstream._best_of_n._settings import BonSettings
from palate.downstream._best_of_n._summary import summarise_best_of_n
from palate.downstream._choice import doubling
from palate.downstream._critics import as_critic
from palate.downstream._personal import keep_views, personal_views
from palate.downstream._policy import Drawing, open_policy
from palate.downstream._samples import SampleSet, SampleSettings
from palate.engine import LanguageModel
from palate.records import Benchmark, Comparison, PalateError, RewardModel
from palate.records._critic import Critic
from palate.runs import (
    Item,
    Named,
    Report,
    as_benchmark,
    is_written,
    json_lines,
    load_models,
    prompts,
    ranks,
    sample_items,
    writer_of,
)
from palate.views import ViewBuilder, ViewSpec, parse_budget, resolve_views


def best_of_n(
    benchmark: str | Path | Benchmark,
    policy: str | LanguageModel,
    reward_models: Sequence[str | RewardModel],
    critic: str | Critic,
    *,
    views: Sequence[str] | None = None,
    policy_views: Sequence[str] = ("none",),
    drawing: Drawing | None = None,
    steps: Sequence[int] | None = None,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Report | None = None,
) -> BonSummary:
    """Measure what reward models are worth when they choose among a policy's own texts.

    The policy writes N texts for each prompt, once for all reward models; each model rates all of them under
    each view; the critic marks them. By default the models see nothing of the user, the richest profile there is, and
    strangers' profiles of the same kind. The same call goes on where an earlier one stopped.
    """
    drawing = drawing or Drawing()
    drawing.check()
    ks = checked_steps(steps, drawing.samples)
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")
    benchmark = as_benchmark(benchmark, data_dir)
    items = sample_items(prompts(benchmark), limit, seed)
    # A text is written for each stranger whom the policy sees, and only rated for each whom a reward model sees.
    shown, seen = resolve_views(policy_views, strangers=1), resolve_views(views or personal_views(benchmark))
    judge = as_critic(critic, benchmark)
    judge.require(items)
    allowance = parse_budget(budget) if budget else None
    author = writer_of((*shown, *seen), writer)
    builder = ViewBuilder(benchmark, retriever=retriever, budget=allowance, seed=seed, writer=author)
    for spec in (*shown, *seen):
        builder.require(spec)
    models = load_models(reward_models)
    model = open_policy(policy, drawing)
    settings = BonSettings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        policy=Named(model.name, model.fingerprint),
        policy_views=shown,
        drawing=drawing,
        steps=ks,
        reward_models=[one.settings for one in models],
        views=seen,
        critic=Named(judge.name, judge.fingerprint),
        retriever=retriever,
        retriever_fingerprint=builder.retriever.fingerprint if any(map(ranks, (*shown, *seen))) else "",
        writer=author.fingerprint if author else None,
        budget=allowance,
        limit=limit,
        seed=seed,
    )
    run = BonRun.create_or_resume(Path(out), settings, {"items.jsonl": json_lines(map(_kept, items))})
    measurement = Measurement(
        settings=settings,
        items=items,
        policy=model,
        sets=[SampleSet(Path(out), sample_settings(settings, spec)) for spec in shown],
        builder=builder,
        models=models,
        critic=judge,
        report=progress or (lambda what, done, total: None),
    )
    with BonWriter(run) as opened:
        keep_views(run.folder, builder, (*shown, *seen), items)
        measurement.run(opened)
    return summarise_best_of_n(run)


def checked_steps(steps: Sequence[int] | None, samples: int) -> list[int]:
    """The k of best-of-k in order, each once; by default 1, 2, 4 and so on up to N.

    1 and N are always among them: the one is the policy alone, the other what was paid for.
    """
    for k in steps or ():
        if k < 1:
            raise PalateError(f"--k is a number of samples to choose from, from 1; {k} was given")
        if k > samples:
            raise PalateError(
                f"--k {k} is more than the {samples} samples that are drawn (-n): the best of {k} cannot be known from "
                f"them; raise -n"
            )
    return sorted({1, *steps, samples}) if steps else doubling(samples)


def sample_settings(settings: BonSettings, spec: ViewSpec) -> SampleSettings:
    """What decides the samples under one policy view, and nothing that does not."""
    return SampleSettings(
        benchmark=settings.benchmark.name,
        content_hash=settings.content_hash,
        policy=settings.policy.name,
        policy_fingerprint=settings.policy.fingerprint,
        view=spec,
        retriever=f"{settings.retriever} {settings.retriever_fingerprint}" if ranks(spec) else "",
        writer=settings.writer if is_written(spec) else None,
        budget=settings.budget if spec.pieces else None,
        drawing=settings.drawing,
        seed=settings.seed,
    )


def _kept(item: Item) -> PromptItem:
    return PromptItem(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        category=item.category,
        twin=item.twin if isinstance(item, Comparison) else None,
    )
