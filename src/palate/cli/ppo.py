"""`palate ppo`: train a policy with a reward model, and judge it on held-out users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

Flag = Annotated[bool, Parameter(negative="")]


def ppo(
    benchmark: str,
    /,
    *,
    rm: str,
    critic: str,
    policy: str = "smollm2",
    view: str | None = None,
    policy_view: str | None = None,
    algorithm: Literal["ppo", "rloo"] = "ppo",
    steps: int = 100,
    prompts: int = 32,
    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = 4,
    tokens: int = 128,
    temperature: float = 1.0,
    epochs: int = 2,
    minibatches: int = 4,
    learning_rate: float | None = None,
    value_learning_rate: float = 1e-3,
    kl: float = 0.05,
    kl_target: float | None = None,
    kl_horizon: int = 10_000,
    trace: float = 1.0,
    clip: float = 0.2,
    value_clip: float = 0.2,
    whiten_rewards: bool = True,
    cut_off_penalty: float = 0.0,
    unscored: Literal["stop", "leave-out"] = "stop",
    lora: int = 0,
    gradient_checkpointing: Flag = False,
    batch_tokens: int = 0,
    test_share: float = 0.25,
    test_samples: int = 4,
    checkpoint_every: int = 20,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Flag = False,
) -> None:
    """Train a policy with the reward of any reward model, and let a critic judge it on held-out users.

    The same command goes on from the last checkpoint. No user, prompt or twin is on both sides. The trained policy
    lies in the folder `policy` of the run; `palate report` makes all numbers anew.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    rm
        The reward model that pays.
    critic
        Who judges the policy at the end, such as `reference`, `rubric:MODEL` or `sim`.
    policy
        The language model that is trained: a name or a folder, with `,device=...` where that matters.
    view
        What the reward model sees of the user. By default the richest profile there is.
    policy_view
        What the policy sees of the user, in training and in the test. By default the same.
    algorithm
        `ppo` with a value head, or `rloo`, where the other texts of a prompt are the baseline.
    steps
        Each draws texts, has them rated, and learns from them.
    prompts
        Prompts of a step.
    samples
        Texts for each prompt.
    tokens
        The most tokens of a text.
    temperature
        The policy is the softmax of logits over this, in drawing and in learning alike.
    epochs
        How often a step's texts are gone through.
    minibatches
        Updates of the weights in an epoch.
    learning_rate
        Of the policy. By default 1e-5, with LoRA 2e-4.
    value_learning_rate
        Of the value head.
    kl
        What a nat of divergence from the untrained policy costs each token; with a target, at the start.
    kl_target
        Nats for each text that the coefficient is steered to. By default it stays as it is.
    kl_horizon
        Over about so many texts the coefficient answers.
    trace
        Lambda of the generalised advantage estimate; below 1 the reward fades on its way to earlier tokens.
    clip
        How far a token's probability ratio may move from one.
    value_clip
        How far a value may move from the one before the step.
    whiten_rewards
        Measure rewards from the mean of their prompt's texts, and give those of a step deviation 1.
    cut_off_penalty
        Taken from the reward of a text that was cut off at the most tokens.
    unscored
        Whether a text that the reward model cannot rate stops the run or is left out; it is never paid.
    lora
        The rank of LoRA adapters; 0 trains all weights.
    gradient_checkpointing
        Compute activations twice instead of keeping them.
    batch_tokens
        Tokens that are read at once in learning; more costs memory. 0 is 4,096 on a CPU and 16,384 on a GPU, and half
        as many where its memory ends.
    test_share
        The part of the users that is held out.
    test_samples
        Texts of each policy for each held-out prompt.
    checkpoint_every
        Steps between checkpoints.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    writer
        The language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server.
    budget
        The most that a profile may take, such as `words:300` or `tokens:500`; the least relevant goes first.
    limit
        Take no more than this many prompts, drawn by the seed.
    seed
        Decides who is held out, samples, order and resamples.
    out
        The folder in which run folders are made.
    data
        Where data sets lie that palate does not ship. Default: the environment variable PALATE_DATA.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    import os

    from palate.cli._show import show
    from palate.downstream import Training, watching
    from palate.downstream import ppo as train
    from palate.downstream.ppo._files import write_ppo
    from palate.downstream.ppo._terminal import print_ppo

    first = os.environ.get("RANK", "0") == "0"
    training = Training(
        algorithm=algorithm,
        steps=steps,
        prompts=prompts,
        samples=samples,
        tokens=tokens,
        temperature=temperature,
        epochs=epochs,
        minibatches=minibatches,
        learning_rate=learning_rate if learning_rate is not None else 2e-4 if lora else 1e-5,
        value_learning_rate=value_learning_rate,
        kl=kl,
        kl_target=kl_target,
        kl_horizon=kl_horizon,
        trace=trace,
        clip=clip,
        value_clip=value_clip,
        whiten_rewards=whiten_rewards,
        cut_off_penalty=cut_off_penalty,
        unscored=unscored,
        lora=lora,
        gradient_checkpointing=gradient_checkpointing,
        batch_tokens=batch_tokens,
    )
    with watching(show=first and not json) as watched:
        summary = train(
            benchmark,
            policy,
            rm,
            critic,
            view=view,
            policy_view=policy_view,
            training=training,
            test_share=test_share,
            test_samples=test_samples,
            checkpoint_every=checkpoint_every,
            retriever=retriever,
            writer=writer,
            budget=budget,
            limit=limit,
            seed=seed,
            out=out,
            data_dir=data,
            progress=watched.report,
            on_step=watched,
            say=lambda what: print(what, file=sys.stderr),  # noqa: T201
        )
    if first:
        show(summary, write_ppo(summary), print_ppo, json=json)
