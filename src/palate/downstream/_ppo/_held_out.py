"""What training was worth: both policies write for held-out users, on the same prompts and with the same seeds."""

from __future__ import annotations

from collections.abc import Sequence

from palate.downstream._critic import Critic, Draft, judged
from palate.downstream._policy import item_seed
from palate.downstream._ppo._prompts import Prompt
from palate.downstream._ppo._run import HeldOutLine, PpoRun
from palate.engine import Failure, LocalModel, Sampling, WriteRequest, Written
from palate.evaluate import Appender, LoadedModel, Report
from palate.records import Ask, Comparison, PalateError
from palate.rewards import conversation, rate

AT_ONCE = 256
"""Texts of each policy before their marks are on the disk."""


def judge_held_out(
    run: PpoRun,
    prompts: Sequence[Prompt],
    untrained: LocalModel,
    trained: LocalModel,
    reward_model: LoadedModel,
    critic: Critic,
    report: Report,
) -> None:
    """Write, rate and mark what is missing. Both policies' texts are one ask, so that their rewards compare."""
    some = max(1, AT_ONCE // run.settings.test_samples)
    appender = Appender(run.folder / "held_out.jsonl")
    try:
        known = run.held_out()
        pending = [prompt for prompt in prompts if prompt.item.id not in known]
        for start in range(0, len(pending), some):
            report("both policies write for held-out users", len(known) + start, len(prompts))
            batch = pending[start : start + some]
            requests = [_request(run, prompt) for prompt in batch]
            before, after = (_written(policy, requests) for policy in (untrained, trained))
            both = [[*one, *other] for one, other in zip(before, after, strict=True)]
            appender.append(_lines(batch, both, reward_model, critic))
    finally:
        appender.close()
    report("both policies wrote for held-out users", len(prompts), len(prompts))


def _request(run: PpoRun, prompt: Prompt) -> WriteRequest:
    """Drawn as in training: the same view, temperature and length."""
    training = run.settings.training
    ask = Ask(id=prompt.item.id, prompt=prompt.item.prompt, responses=(), view=prompt.policy_view)
    sampling = Sampling(
        most_tokens=training.tokens,
        temperature=training.temperature,
        top_p=1.0,
        seed=item_seed(prompt.item, run.settings.seed),
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
