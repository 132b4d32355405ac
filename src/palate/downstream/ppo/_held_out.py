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
from palate.downstream.ppo._run import HELD_OUT, ControlRating, ControlTexts, HeldOutLine, PpoSettings
from palate.downstream.ppo._split import Prompt, fitted
from palate.engine import Failure, LocalModel, Sampling, WriteRequest, Written
from palate.records import Ask, Critic, Draft, PalateError, View
from palate.rewards import conversation, rate
from palate.runs import Item, LoadedModel, Progress, Run, chunks, keep_views
from palate.views import STRANGERS, ViewBuilder, ViewSpec, drawn

AT_ONCE = 256
"""Texts of each policy before their grades are on the disk."""


def judge_held_out(
    run: Run[PpoSettings],
    prompts: Sequence[Prompt],
    untrained: LocalModel,
    trained: LocalModel,
    reward_model: LoadedModel,
    critic: Critic,
    builder: ViewBuilder,
    progress: Progress,
) -> None:
    """Write, rate and grade what is missing. Both policies' texts are one ask, so that their rewards compare."""
    settings, items = run.settings, [prompt.item for prompt in prompts]
    rated, shown = controls(settings.view, strangers=STRANGERS), controls(settings.policy_view, strangers=1)
    what = "both policies write for held-out users"
    with run.writing() as writer:
        keep_views(writer, builder, (settings.view, settings.policy_view, *rated, *shown), items)
        pending = [prompt for prompt in prompts if prompt.item.id not in writer.keys(HELD_OUT)]
        for batch in chunks(pending, max(1, AT_ONCE // settings.training.test_samples)):
            progress(what, len(writer.keys(HELD_OUT)), len(prompts))
            requests = [_request(settings, prompt.item, prompt.policy_view) for prompt in batch]
            before, after = (_written(policy, requests) for policy in (untrained, trained))
            both = [[*one, *other] for one, other in zip(before, after, strict=True)]
            lines = _lines(settings, batch, both, reward_model, critic)
            ratings = _control_ratings(lines, batch, reward_model, builder, rated)
            texts = _control_texts(settings, batch, trained, critic, builder, shown)
            writer.add(
                HELD_OUT,
                [
                    msgspec.structs.replace(line, ratings=tuple(ratings[line.item]), written=tuple(texts[line.item]))
                    for line in lines
                ],
            )
    progress(what, len(prompts), len(prompts))


def _control_ratings(
    lines: Sequence[HeldOutLine],
    batch: Sequence[Prompt],
    reward_model: LoadedModel,
    builder: ViewBuilder,
    views: Sequence[ViewSpec],
) -> dict[str, list[ControlRating]]:
    """By item: the same texts rated by who sees nothing of the user, and by who sees strangers."""
    found: dict[str, list[ControlRating]] = {line.item: [] for line in lines}
    for spec, draw in drawn(views):
        built = builder.build(spec, [prompt.item for prompt in batch], draw=draw)
        asks = [
            Ask(id=line.item, prompt=prompt.item.prompt, responses=line.texts, view=view)
            for line, prompt, view in zip(lines, batch, built, strict=True)
            if isinstance(view, View)
        ]
        for ask, rating in zip(asks, rate(reward_model.model, asks) if asks else [], strict=True):
            found[ask.id].append(ControlRating(view=spec.name, draw=draw, user_id=ask.view.user_id, rating=rating))
    return found


def _control_texts(
    settings: PpoSettings,
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
            (prompt.item, fitted(trained, prompt.item, view, settings.training.tokens).view)
            for prompt, view in zip(batch, built, strict=True)
            if isinstance(view, View)
        ]
        written = _written(trained, [_request(settings, item, view) for item, view in asked])
        drafts = [
            Draft(item=item, text=one.text) for (item, _), some in zip(asked, written, strict=True) for one in some
        ]
        grades = iter(judged(critic, drafts))
        for (item, view), some in zip(asked, written, strict=True):
            found[item.id].append(
                ControlTexts(
                    view=spec.name,
                    user_id=view.user_id,
                    texts=tuple(one.text for one in some),
                    grades=tuple(next(grades) for _ in some),
                )
            )
    return found


def _request(settings: PpoSettings, item: Item, view: View) -> WriteRequest:
    """Drawn as in training: the same temperature and length."""
    training = settings.training
    ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=view)
    sampling = Sampling(
        most_tokens=training.tokens,
        temperature=training.temperature,
        top_p=1.0,
        seed=item_seed(item, settings.seed),
    )
    return WriteRequest(turns=conversation(ask), sampling=sampling, samples=training.test_samples)


def _written(policy: LocalModel, requests: Sequence[WriteRequest]) -> list[list[Written]]:
    found = []
    for answer in policy.write(requests):
        if isinstance(answer, Failure):
            raise PalateError(f"{policy.name} could not write for a held-out prompt: {answer.reason}")
        found.append(answer)
    return found


def _lines(
    settings: PpoSettings,
    batch: Sequence[Prompt],
    written: Sequence[Sequence[Written]],
    reward_model: LoadedModel,
    critic: Critic,
) -> list[HeldOutLine]:
    texts = [tuple(one.text for one in some) for some in written]
    asks = [
        Ask(id=prompt.item.id, prompt=prompt.item.prompt, responses=own, view=prompt.view)
        for prompt, own in zip(batch, texts, strict=True)
    ]
    ratings = rate(reward_model.model, asks)
    drafts = [Draft(item=prompt.item, text=text) for prompt, own in zip(batch, texts, strict=True) for text in own]
    grades = iter(judged(critic, drafts))
    return [
        HeldOutLine(
            item=prompt.item.id,
            policy_view=settings.policy_view.name,
            view=settings.view.name,
            texts=own,
            tokens=tuple(one.tokens for one in some),
            unfinished=tuple(place for place, one in enumerate(some) if not one.finished),
            rating=rating,
            grades=tuple(next(grades) for _ in own),
        )
        for prompt, own, some, rating in zip(batch, texts, written, ratings, strict=True)
    ]
