"""`palate ppo`: train a policy with a reward model, and let a critic say on held-out users what it was worth."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palate.downstream.ppo._prompts import Prompt
from palate.downstream.ppo._results import PpoSummary, StepLine
from palate.downstream.ppo._run import PpoRun, SplitFile
from palate.downstream.ppo._settings import PpoSettings, Training
from palate.downstream.ppo._sides import Asked, Sides, make_sides
from palate.downstream.ppo._summary import summarise_ppo
from palate.engine import require
from palate.records import Benchmark, Critic, PalateError, RewardModel
from palate.runs import Fingerprint, LoadedModel, Progress, as_benchmark, load_models

if TYPE_CHECKING:
    from palate.downstream.ppo._policy_model import PolicyModel
    from palate.downstream.ppo._together import Together

LARGEST_SEED = 2**63
"""What torch can be seeded with lies below."""


def ppo(
    benchmark: str | Path | Benchmark,
    policy: str,
    reward_model: str | RewardModel,
    critic: str | Critic,
    *,
    view: str | None = None,
    policy_view: str | None = None,
    training: Training | None = None,
    test_share: float = 0.25,
    test_samples: int = 4,
    checkpoint_every: int = 20,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
    on_step: Callable[[StepLine, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> PpoSummary:
    """Train a policy against a reward model, and judge it on users and prompts that it was not trained on.

    The same call goes on where an earlier one stopped. `on_step` is told of each step and of how many there are;
    `say` of anything else a person should know. Under `accelerate launch` several processes share the work.
    """
    training = training or Training()
    training.check()
    asked = Asked(
        view=view, policy_view=policy_view, test_share=test_share, test_samples=test_samples, retriever=retriever,
        writer=writer, budget=budget, limit=limit, seed=seed,
    )  # fmt: skip
    _check(asked, checkpoint_every)
    report, tell = progress or (lambda what, done, total: None), say or (lambda what: None)
    require("torch", "local")
    from palate.downstream.ppo._held_out import judge_held_out
    from palate.downstream.ppo._policy_model import open_policy_model
    from palate.downstream.ppo._ppo import Trainer
    from palate.downstream.ppo._to_the_end import train_to_the_end
    from palate.downstream.ppo._together import Together

    together = Together.join()
    benchmark = as_benchmark(benchmark, data_dir)
    sides = make_sides(benchmark, critic, asked)
    [model] = load_models([reward_model])
    learner = open_policy_model(policy, together.device)
    training = training.on(learner.device)
    _check_room(learner, training)
    to_train, to_test, left_out = sides.prompts(learner, training.tokens, report)
    settings = _settings(benchmark, sides, asked, learner, model, training, together.count)
    run = _begin(Path(out), settings, to_train, to_test, left_out, together)
    if not run.policy.exists():
        trainer = Trainer(learner, to_train, model, training, seed, together)
        report("drawing, rating and learning the next step", 0, 1)
        train_to_the_end(run, trainer, checkpoint_every, on_step or (lambda line, steps: None), tell)
        del trainer
    untrained, trained = learner.like(learner.name), learner.like(str(run.policy))
    del learner
    gc.collect()  # what was trained with makes room for what is tested
    if together.first:
        judge_held_out(run, to_test, untrained, trained, model, sides.critic, sides.builders[1], report)
    together.wait()
    return summarise_ppo(run)


def _check(asked: Asked, checkpoint_every: int) -> None:
    share, samples, limit = asked.test_share, asked.test_samples, asked.limit
    if not 0 < share < 1:
        raise PalateError(f"--test-share is the part of the users that is held out, between 0 and 1; not {share}")
    if samples < 1:
        raise PalateError(f"--test-samples is a number of texts from 1; {samples} was given")
    if checkpoint_every < 1:
        raise PalateError(f"--checkpoint-every is a number of steps from 1; {checkpoint_every} was given")
    if not 0 <= asked.seed < LARGEST_SEED:
        raise PalateError(f"--seed is a number from 0 to {LARGEST_SEED - 1}; {asked.seed} was given")
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")


def _check_room(learner: PolicyModel, training: Training) -> None:
    if learner.context is not None and training.tokens >= learner.context:
        raise PalateError(
            f"the policy {learner.name} has a context of {learner.context} tokens, and {training.tokens} of them for "
            "the answer leave none for the prompt; lower --tokens"
        )


def _settings(
    benchmark: Benchmark,
    sides: Sides,
    asked: Asked,
    learner: PolicyModel,
    model: LoadedModel,
    training: Training,
    processes: int,
) -> PpoSettings:
    return PpoSettings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        policy=Fingerprint(learner.name, learner.fingerprint),
        policy_view=sides.policy_view,
        reward_model=model.settings,
        view=sides.view,
        critic=Fingerprint(sides.critic.name, sides.critic.fingerprint),
        training=training,
        test_share=asked.test_share,
        test_samples=asked.test_samples,
        retriever=asked.retriever,
        retriever_fingerprint=sides.retriever_fingerprint,
        writer=sides.writer,
        budget=sides.budget,
        limit=asked.limit,
        seed=asked.seed,
        processes=processes,
    )


def _begin(
    parent: Path,
    settings: PpoSettings,
    train: list[Prompt],
    test: list[Prompt],
    left_out: dict[str, int],
    together: Together,
) -> PpoRun:
    split = SplitFile(
        train_users=sorted({prompt.item.user_id for prompt in train}),
        train_items=[prompt.item.id for prompt in train],
        test_users=sorted({prompt.item.user_id for prompt in test}),
        test_items=[prompt.item.id for prompt in test],
        left_out=left_out,
    )
    if together.first:
        PpoRun.begin(parent, settings, split)
    together.wait()
    return PpoRun.begin(parent, settings, split)
