"""What training was worth: both policies write for held-out users, on the same prompts and with the same seeds.

The trained policy writes again, and the reward model rates again, seeing nothing of the user or a stranger: what is
gained only with the user's own view is personal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.downstream._critics import judged
from palate.downstream._personal import controls
from palate.downstream._policy import item_seed
from palate.downstream.ppo._prompts import Prompt, fitted
from palate.downstream.ppo._run import ControlRating, ControlTexts, HeldOutLine, PpoRun
from palate.engine import Failure, LocalModel, Sampling, WriteRequest, Written
from palate.records import Ask, Comparison, Critic, Draft, PalateError, View
from palate.rewards import conversation, rate
from palate.runs import Appender, Item, LoadedModel, Progress, keep_views
from palate.views import STRANGERS, ViewBuilder, ViewSpec

AT_ONCE = 256
"""Texts of each policy before their marks are on the disk."""


def judge_held_out(
    run: PpoRun,
    prompts: Sequence[Prompt],
    untrained: LocalModel,
    trained: LocalModel,
    reward_model: LoadedModel,
    critic: Critic,
    builder: ViewBuilder,
    report: Progress,
) -> None:
    """Write, rate and mark what is missing. Both policies' texts are one ask, so that their rewards compare."""
    settings, items = run.settings, [prompt.item for prompt in prompts]
    rated, shown = controls(settings.view, strangers=STRANGERS), controls(settings.policy_view, strangers=1)
    some = max(1, AT_ONCE // run.settings.test_samples)
    appender = Appender(run.folder / "held_out.jsonl")
    try:
        keep_views(run.folder, builder, (settings.view, settings.policy_view, *rated, *shown), items)
        known = run.held_out()
        pending = [prompt for prompt in prompts if prompt.item.id not in known]
        for start in range(0, len(pending), some):
            report("both policies write for held-out users", len(known) + start, len(prompts))
            batch = pending[start : start + some]
            requests = [_request(run, prompt.item, prompt.policy_view) for prompt in batch]
            before, after = (_written(policy, requests) for policy in (untrained, trained))
            both = [[*one, *other] for one, other in zip(before, after, strict=True)]
            lines = _lines(batch, both, reward_model, critic)
            ratings = _control_ratings(lines, batch, reward_model, builder, rated)
            texts = _control_texts(run, batch, trained, critic, builder, shown)
            appender.append(
                [
                    msgspec.structs.replace(line, ratings=tuple(ratings[line.item]), written=tuple(texts[line.item]))
                    for line in lines
                ]
            )
    finally:
        appender.close()
    report("both policies wrote for held-out users", len(prompts), len(prompts))


def _control_ratings(
    lines: Sequence[HeldOutLine],
    batch: Sequence[Prompt],
    reward_model: LoadedModel,
    builder: ViewBuilder,
    views: Sequence[ViewSpec],
) -> dict[str, list[ControlRating]]:
    """By item: the same texts rated by who sees nothing of the user, and by who sees strangers."""
    found: dict[str, list[ControlRating]] = {line.item: [] for line in lines}
    for spec in views:
        for draw in range(spec.draws):
            built = builder.build(spec, [prompt.item for prompt in batch], draw=draw)
            asks = [
                Ask(id=line.item, prompt=line.prompt, responses=line.texts, view=view)
                for line, view in zip(lines, built, strict=True)
                if isinstance(view, View)
            ]
            for ask, rating in zip(asks, rate(reward_model.model, asks) if asks else [], strict=True):
                found[ask.id].append(ControlRating(view=spec.name, draw=draw, user_id=ask.view.user_id, rating=rating))
    return found


def _control_texts(
    run: PpoRun,
    batch: Sequence[Prompt],
    trained: LocalModel,
    critic: Critic,
    builder: ViewBuilder,
    views: Sequence[ViewSpec],
) -> dict[str, list[ControlTexts]]:
    """By item: what the trained policy writes, with the same seeds, when it sees nothing of the user, or a stranger."""
    found: dict[str, list[ControlTexts]] = {prompt.item.id: [] for prompt in batch}
    for spec in views:
        built = builder.build(spec, [prompt.item for prompt in batch])
        asked = [
            (prompt.item, fitted(trained, prompt.item, view, run.settings.training.tokens).view)
            for prompt, view in zip(batch, built, strict=True)
            if isinstance(view, View)
        ]
        written = _written(trained, [_request(run, item, view) for item, view in asked])
        drafts = [
            Draft(item=item, text=one.text) for (item, _), some in zip(asked, written, strict=True) for one in some
        ]
        marks = iter(judged(critic, drafts))
        for (item, view), some in zip(asked, written, strict=True):
            found[item.id].append(
                ControlTexts(
                    view=spec.name,
                    user_id=view.user_id,
                    texts=tuple(one.text for one in some),
                    marks=tuple(next(marks) for _ in some),
                )
            )
    return found


def _request(run: PpoRun, item: Item, view: View) -> WriteRequest:
    """Drawn as in training: the same temperature and length."""
    training = run.settings.training
    ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=view)
    sampling = Sampling(
        most_tokens=training.tokens,
        temperature=training.temperature,
        top_p=1.0,
        seed=item_seed(item, run.settings.seed),
    )
    return WriteRequest(turns=conversation(ask), sampling=sampling, samples=run.settings.test_samples)


def _written(policy: LocalModel, requests: Sequence[WriteRequest]) -> list[list[Written]]:
    found = []
    for answer in policy.write(requests):
        if isinstance(answer, Failure):
            raise PalateError(f"{policy.name} could not write for a held-out prompt: {answer.reason}")
        found.append(answer)
    return found


def _lines(
    batch: Sequence[Prompt], written: Sequence[Sequence[Written]], reward_model: LoadedModel, critic: Critic
) -> list[HeldOutLine]:
    texts = [tuple(one.text for one in some) for some in written]
    asks = [
        Ask(id=prompt.item.id, prompt=prompt.item.prompt, responses=own, view=prompt.view)
        for prompt, own in zip(batch, texts, strict=True)
    ]
    ratings = rate(reward_model.model, asks)
    drafts = [Draft(item=prompt.item, text=text) for prompt, own in zip(batch, texts, strict=True) for text in own]
    marks = iter(judged(critic, drafts))
    return [
        HeldOutLine(
            item=prompt.item.id,
            user_id=prompt.item.user_id,
            prompt=prompt.item.prompt,
            texts=own,
            tokens=tuple(one.tokens for one in some),
            unfinished=tuple(place for place, one in enumerate(some) if not one.finished),
            rating=rating,
            marks=tuple(next(marks) for _ in own),
            twin=prompt.item.twin if isinstance(prompt.item, Comparison) else None,
        )
        for prompt, own, some, rating in zip(batch, texts, written, ratings, strict=True)
    ]
