"""`palate ppo`: train a policy with a reward model, and let a critic say on held-out users what it was worth."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palate.downstream._critics import as_critic
from palate.downstream._items import ITEMS, prompt_item
from palate.downstream._personal import own_view
from palate.downstream.ppo._document import ppo_document
from palate.downstream.ppo._results import PpoSummary, StepLine
from palate.downstream.ppo._run import HELD_OUT, LEDGERS, PpoSettings, policy_folder
from palate.downstream.ppo._split import Prompt, make_prompts, split_by_users
from palate.downstream.ppo._summary import summarise_ppo
from palate.downstream.ppo._training import Training
from palate.engine import require
from palate.records import Benchmark, Critic, PalateError, RewardModel
from palate.report import Document
from palate.runs import (
    Experiment,
    Fingerprint,
    Ledger,
    Progress,
    Reading,
    Run,
    as_benchmark,
    as_writer,
    begin_run,
    cautioned,
    is_written,
    json_lines,
    keeping_spent,
    load_models,
    no_progress,
    prompts,
    sample_items,
    set_up,
    write_report,
)
from palate.runs._experiment import DEFAULT_READING
from palate.views import resolve_views

if TYPE_CHECKING:
    from palate.downstream.ppo._distributed import ProcessGroup
    from palate.downstream.ppo._policy_model import PolicyModel


CHECKPOINT_EVERY = 20
"""Steps between checkpoints."""
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
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep_policy: bool = True,
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

    Call it again to resume. Without `keep_policy` the trained weights are deleted once they have been tested.
    `on_step` is told of each step and of how many there are; `say` of anything else a person should know. Under
    `accelerate launch` several processes share the work.
    """
    training = training or Training()
    training.check()
    _check(checkpoint_every, seed)
    progress = progress or no_progress
    require("torch", "local")
    from palate.downstream.ppo._distributed import ProcessGroup
    from palate.downstream.ppo._held_out import judge_held_out
    from palate.downstream.ppo._policy_model import open_policy_model
    from palate.downstream.ppo._ppo import Trainer
    from palate.downstream.ppo._resume import train_or_resume

    group = ProcessGroup.join()
    benchmark = as_benchmark(benchmark, data_dir)
    sides = split_by_users(
        benchmark, sample_items(prompts(benchmark), limit, seed), share=training.test_share, seed=seed
    )
    seen = view or own_view(benchmark)
    [shown_to_model], [shown_to_policy] = resolve_views([seen]), resolve_views([policy_view or seen])
    judge = as_critic(critic, benchmark)
    judge.require(sides[1].items)
    views = (shown_to_model, shown_to_policy)
    author = as_writer(writer) if any(map(is_written, views)) else writer
    to_train, to_test = (
        set_up(
            side.benchmark,
            side.items,
            views,
            retriever=retriever,
            writer=author,
            budget=budget,
            limit=limit,
            seed=seed,
        )
        for side in sides
    )
    every = [item for side in sides for item in side.items]
    [model] = cautioned(load_models([reward_model]), [shown_to_model], benchmark, every)
    learner = open_policy_model(policy, group.device)
    training = training.resolved(learner.device)
    _check_room(learner, training)
    progress("reading the prompts", 0, 2)
    trained_on, missing = make_prompts(to_train, learner, shown_to_policy, shown_to_model, training.tokens)
    progress("reading the prompts", 1, 2)
    held_out, also_missing = make_prompts(to_test, learner, shown_to_policy, shown_to_model, training.tokens)
    settings = PpoSettings(
        **to_train.settings | {"content_hash": benchmark.content_hash},
        policy=Fingerprint(learner.name, learner.fingerprint),
        policy_view=shown_to_policy,
        reward_model=model.settings,
        view=shown_to_model,
        critic=Fingerprint(judge.name, judge.fingerprint),
        training=training,
        left_out=dict(missing + also_missing),
        processes=group.world_size,
    )
    run = _begin(Path(out), settings, trained_on, held_out, group)
    if not all(prompt.item.id in run.lines(HELD_OUT) for prompt in held_out):  # perhaps without its weights by now
        with keeping_spent(run.folder) if group.is_main else nullcontext():  # training and test are one start
            if not policy_folder(run).exists():
                trainer = Trainer(learner, trained_on, model, training, seed, group)
                progress("drawing, rating and learning the next step", 0, 1)
                heard = on_step or (lambda line, steps: None), say or (lambda what: None)
                train_or_resume(run, trainer, checkpoint_every, *heard)
                del trainer
            untrained, trained = learner.like(learner.name), learner.like(str(policy_folder(run)))
            del learner
            gc.collect()  # what was trained with makes room for what is tested
            if group.is_main:
                judge_held_out(run, held_out, untrained, trained, model, judge, to_test.builder, progress)
    if group.is_main and not keep_policy:
        shutil.rmtree(policy_folder(run), ignore_errors=True)
    group.barrier()
    summary = PPO.summarise(run)
    if group.is_main and (run.folder / "report.html").exists():  # the page that was written while it was trained
        write_report(run, summary)
    return summary


def _check(checkpoint_every: int, seed: int) -> None:
    if checkpoint_every < 1:
        raise PalateError(f"--checkpoint-every is a number of steps from 1; {checkpoint_every} was given")
    if not 0 <= seed < LARGEST_SEED:
        raise PalateError(f"--seed is a number from 0 to {LARGEST_SEED - 1}; {seed} was given")


def _check_room(learner: PolicyModel, training: Training) -> None:
    if learner.context is not None and training.tokens >= learner.context:
        raise PalateError(
            f"the policy {learner.name} has a context of {learner.context} tokens, and {training.tokens} of them for "
            "the answer leave none for the prompt; lower --tokens"
        )


def _begin(
    parent: Path, settings: PpoSettings, trained_on: Sequence[Prompt], held_out: Sequence[Prompt], group: ProcessGroup
) -> Run[PpoSettings]:
    """The main process makes the folder before the others open it."""
    items = [
        *(msgspec.structs.replace(prompt_item(prompt.item), held_out=False) for prompt in trained_on),
        *(prompt_item(prompt.item) for prompt in held_out),
    ]
    files = {"items.jsonl": lambda: json_lines(items)}
    if group.is_main:
        begin_run(parent, PPO, settings, files)
    group.barrier()
    return begin_run(parent, PPO, settings, files)


TRAINED = (
    "{path} was trained on this user, and a policy cannot unlearn one user: delete that folder, and copies of its "
    "policy, and name it no more with --run."
)
WEIGHTS = (
    "the weights in {path} are as they were: they were not trained on this user, but if the reward model was, or if "
    "texts of theirs were shown with others' items, a trace of that may be in them"
)
STRANGERS = (
    "{path} showed somebody else's profile in training and does not keep whose: if it was this user's, a trace of it "
    "is in the weights; delete the folder to be sure"
)
WRITTEN = (
    "what a policy wrote for others in {path} is as it was. If this user was among those it was trained on, a trace of "
    "that may be in it; its weights were deleted after the test. Delete the folder to be sure"
)


class PpoExperiment(Experiment[PpoSettings, PpoSummary]):
    """A policy is trained with the reward of a reward model, and a critic judges it on held-out users."""

    kind = "ppo"
    command = "palate ppo"
    settings = PpoSettings

    def ledgers(self, settings: PpoSettings) -> Sequence[Ledger[Any]]:
        """Prompts of both sides, the curves, what was shown of held-out users, and what was written for them."""
        return LEDGERS

    def summarise(self, run: Run[PpoSettings], reading: Reading = DEFAULT_READING) -> PpoSummary:
        """Every number from the curves and from the raw texts, ratings and grades."""
        return summarise_ppo(run)

    def document(self, run: Run[PpoSettings], summary: PpoSummary, *, users: bool = True) -> Document:
        """What held-out users got, how training went, and every held-out prompt with its texts before and after."""
        return ppo_document(run, summary, users=users)

    def refuse_to_forget(self, run: Run[PpoSettings], user: str) -> str | None:
        """Whoever was trained on is in the weights, as long as there are any, and cannot be taken out."""
        return TRAINED.format(path=run.folder) if _has_weights(run) and user in _trained_on(run) else None

    def may_tell_of_anybody(self, run: Run[PpoSettings]) -> Sequence[Ledger[Any]]:
        """What a policy writes that was trained while strangers or neighbours were shown."""
        return (HELD_OUT,) if _showed_strangers(run) else ()

    def left_after_forgetting(self, run: Run[PpoSettings]) -> list[str]:
        """The weights stay as they are; where they were deleted, what they wrote stays."""
        if not _has_weights(run):
            return [WRITTEN.format(path=run.folder)]
        strangers = [STRANGERS.format(path=run.folder)] if _showed_strangers(run) else []
        return [WEIGHTS.format(path=policy_folder(run)), *strangers]


def _has_weights(run: Run[PpoSettings]) -> bool:
    return policy_folder(run).exists() or (run.folder / "checkpoints").exists()


@lru_cache(maxsize=1)
def _trained_on(run: Run[PpoSettings]) -> frozenset[str]:
    """Read once for an opened run, however many users are asked about."""
    return frozenset(item.user_id for item in run.read(ITEMS) if not item.held_out)


def _showed_strangers(run: Run[PpoSettings]) -> bool:
    return any(view.whose != "own" or view.neighbours for view in (run.settings.view, run.settings.policy_view))


PPO = PpoExperiment()
