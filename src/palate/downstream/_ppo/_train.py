"""`palate ppo`: train a policy with a reward model, and let a critic say on held-out users what it was worth."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palate.data import load_benchmark
from palate.downstream._best_of_n._best_of_n import as_critic, is_written, prompts, ranks
from palate.downstream._best_of_n._settings import Named
from palate.downstream._critic import Critic
from palate.downstream._ppo._files import write_ppo
from palate.downstream._ppo._results import PpoSummary, StepLine
from palate.downstream._ppo._run import PpoRun, SecondsLine, SplitFile
from palate.downstream._ppo._settings import PpoSettings, Training
from palate.downstream._ppo._split import split_by_users
from palate.downstream._ppo._summary import summarise_ppo
from palate.engine import open_by_spec, require
from palate.evaluate import Appender, Report, default_views, load_models, sample_items
from palate.records import Benchmark, PalateError, RewardModel
from palate.views import ViewBuilder, Writer, parse_budget, resolve_views

if TYPE_CHECKING:
    from palate.downstream._ppo._ppo import Trainer
    from palate.downstream._ppo._prompts import Prompt
    from palate.downstream._ppo._together import Together

PAGE_EVERY = 10
"""Steps after which the page is made anew while training goes on."""
LONGEST_UNKEPT = 300.0
"""Seconds of work that a crash may cost: slow steps get a checkpoint sooner than was asked for."""


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
    progress: Report | None = None,
    on_step: Callable[[StepLine, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> PpoSummary:
    """Train a policy against a reward model, and judge it on users and prompts that it was not trained on.

    The same call goes on where an earlier one stopped. `on_step` is told of each step and of how many there are;
    `say` of anything else a person should know. Under `accelerate launch` several processes share the work.
    """
    training = training or Training()
    training.check()
    _check(test_share, test_samples, checkpoint_every, limit)
    report, tell = progress or (lambda what, done, total: None), say or (lambda what: None)
    require("torch", "local")
    from palate.downstream._ppo._policy_model import open_policy_model
    from palate.downstream._ppo._prompts import make_prompts
    from palate.downstream._ppo._together import Together

    together = Together.join()
    if not isinstance(benchmark, Benchmark):
        benchmark = load_benchmark(benchmark, data_dir=Path(data_dir) if data_dir else None)
    items = sample_items(prompts(benchmark), limit, seed)
    train, test = split_by_users(benchmark, items, test_share, seed)
    seen = view or default_views(benchmark)[:2][-1]
    [spec], [shown] = resolve_views([seen]), resolve_views([policy_view or seen])
    judge = as_critic(critic, benchmark)
    judge.require(test.items)
    allowance = parse_budget(budget) if budget else None
    author = Writer(open_by_spec(writer)) if is_written(spec) or is_written(shown) else None
    builders = [
        ViewBuilder(side.benchmark, retriever=retriever, budget=allowance, seed=seed, writer=author)
        for side in (train, test)
    ]
    for one in (spec, shown):
        for builder in builders:
            builder.require(one)
    [model] = load_models([reward_model])
    learner = open_policy_model(policy, together.device)
    training = training.on(learner.device)
    if learner.context is not None and training.tokens >= learner.context:
        raise PalateError(
            f"the policy {learner.name} has a context of {learner.context} tokens, and {training.tokens} of them for "
            "the answer leave none for the prompt; lower --tokens"
        )
    report("reading the prompts", 0, 2)
    tokens = training.tokens
    to_train, missing = make_prompts(train, builders[0], learner, shown, spec, tokens)
    report("reading the prompts", 1, 2)
    to_test, also_missing = make_prompts(test, builders[1], learner, shown, spec, tokens)
    settings = PpoSettings(
        benchmark=benchmark.card,
        content_hash=benchmark.content_hash,
        policy=Named(learner.name, learner.fingerprint),
        policy_view=shown,
        reward_model=model.settings,
        view=spec,
        critic=Named(judge.name, judge.fingerprint),
        training=training,
        test_share=test_share,
        test_samples=test_samples,
        retriever=retriever,
        retriever_fingerprint=builders[0].retriever.fingerprint if ranks(spec) or ranks(shown) else "",
        writer=author.fingerprint if author else None,
        budget=allowance,
        limit=limit,
        seed=seed,
        processes=together.count,
    )
    run = _begin(Path(out), settings, to_train, to_test, missing | also_missing, together)
    if not run.policy.exists():
        from palate.downstream._ppo._ppo import Trainer

        trainer = Trainer(learner, to_train, model, training, seed, together)
        _train(run, trainer, checkpoint_every, together, on_step or (lambda line, steps: None), tell)
        del trainer
    untrained, trained = learner.like(learner.name), learner.like(str(run.policy))
    del learner
    gc.collect()  # what was trained with makes room for what is tested
    if together.first:
        from palate.downstream._ppo._held_out import judge_held_out

        judge_held_out(run, to_test, untrained, trained, model, judge, report)
    together.wait()
    return summarise_ppo(run)


def _check(test_share: float, test_samples: int, checkpoint_every: int, limit: int | None) -> None:
    if not 0 < test_share < 1:
        raise PalateError(f"--test-share is the part of the users that is held out, between 0 and 1; not {test_share}")
    if test_samples < 1:
        raise PalateError(f"--test-samples is a number of texts from 1; {test_samples} was given")
    if checkpoint_every < 1:
        raise PalateError(f"--checkpoint-every is a number of steps from 1; {checkpoint_every} was given")
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")


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


def _train(
    run: PpoRun,
    trainer: Trainer,
    checkpoint_every: int,
    together: Together,
    on_step: Callable[[StepLine, int], None],
    say: Callable[[str], None],
) -> None:
    """From the last checkpoint to the end; the first process writes, the others only learn."""
    from palate.downstream._ppo._checkpoint import read_checkpoint, write_checkpoint

    seconds = Appender(run.folder / "seconds.jsonl") if together.first else None  # and with it the run is locked
    state = read_checkpoint(run.folder, say if together.first else lambda what: None)
    if state is not None:
        trainer.go_on(state)
        if together.first:
            say(f"going on after step {trainer.step} of {trainer.training.steps}")
    del state
    if seconds is None:
        for _ in trainer.run():
            pass
        together.wait()
        return
    run.cut_curve(trainer.step)
    curve = Appender(run.folder / "steps.jsonl")
    written = time.monotonic()
    try:
        for line in trainer.run():
            curve.append([line.timed(0.0)])
            seconds.append([SecondsLine(line.step, line.seconds)])
            due = line.step % checkpoint_every == 0 or time.monotonic() - written > LONGEST_UNKEPT
            if due and line.step < trainer.training.steps:
                write_checkpoint(run.folder, line.step, trainer.state())
                written = time.monotonic()
            if line.step % PAGE_EVERY == 0:
                write_ppo(summarise_ppo(run))
            on_step(line, trainer.training.steps)
        _save(run, trainer)
    finally:
        curve.close()
        seconds.close()
    together.wait()


def _save(run: PpoRun, trainer: Trainer) -> None:
    """The policy under its name only once all of it is on the disk; checkpoints are then of no more use."""
    draft = run.folder / ".policy"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        trainer.policy.save(draft)
        for file in [*draft.iterdir(), draft]:
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        draft.rename(run.policy)
    except OSError as error:
        raise PalateError(f"cannot write the policy to {run.folder}: {error.strerror or error}") from error
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
