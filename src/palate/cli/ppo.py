"""`palate ppo`: train a policy with a reward model, and test it on held-out users."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_type_hints

from cyclopts import Group, Parameter

from palate.cli._options import LoggedRunOptions, ViewOptions
from palate.downstream import CHECKPOINT_EVERY, Training
from palate.records import printable

GROUPS = {
    "Optimisation": ("epochs", "minibatches", "learning_rate", "value_learning_rate", "max_grad_norm"),
    "KL and advantages": (
        *("kl", "kl_target", "kl_horizon", "gamma", "gae_lambda", "clip_range", "value_clip_range"),
        *("whiten_rewards", "truncation_penalty", "unscored"),
    ),
    "Memory": ("gradient_checkpointing", "batch_tokens"),
    "Held-out users": ("test_share", "test_samples"),
}
"""Options of training that few need, in groups; the others stand with the command's own."""
Options = TypeVar("Options", bound=type[Training])


def grouped(options: Options) -> Options:
    """Each option in its group."""
    hints = get_type_hints(Training)
    for number, (title, names) in enumerate(GROUPS.items(), start=3):
        for name in names:
            options.__annotations__[name] = Annotated[hints[name], Parameter(group=Group(title, sort_key=number))]
            setattr(options, name, getattr(Training, name))
    return options


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
@grouped
class TrainingOptions(Training):
    """The same, with the short name that samples have in other commands."""

    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = Training.samples
    """Texts for each prompt; `rloo` needs two at least."""


TRAINING, VIEWS, RUN = TrainingOptions(), ViewOptions(), LoggedRunOptions()


def ppo(
    benchmark: str,
    /,
    *,
    rm: str,
    critic: str,
    policy: str = "smollm2",
    view: str | None = None,
    policy_view: str | None = None,
    training: TrainingOptions = TRAINING,
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep_policy: bool = True,
    views: ViewOptions = VIEWS,
    run: LoggedRunOptions = RUN,
) -> None:
    """Train a policy with the reward of any reward model, and let a critic judge it on held-out users.

    Run the same command again to resume from the last checkpoint. No user, prompt or twin is on both sides. The
    trained policy lies in the folder `policy` of the run; `palate report` recomputes all numbers.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    rm
        Reward model that trains the policy.
    critic
        Who judges the policy at the end: `reference`, `rubric:MODEL`, `sim` or `./file.py:Name`.
    policy
        Language model that is trained: a name or a folder, with `,device=...` where that matters.
    view
        What the reward model sees of the user [default: the richest profile there is].
    policy_view
        What the policy sees of the user, in training and in the test [default: the same].
    checkpoint_every
        Steps between checkpoints.
    keep_policy
        Keep the trained weights after the test.
    """
    from palate.cli._show import log, loggers_of, show
    from palate.downstream import is_main_process, watching
    from palate.downstream import ppo as train

    loggers = loggers_of(run)
    with watching(show=not run.json) as watched:
        summary = train(
            benchmark,
            policy,
            rm,
            critic,
            view=view,
            policy_view=policy_view,
            training=Training(**vars(training)),
            checkpoint_every=checkpoint_every,
            keep_policy=keep_policy,
            **views.given,
            **run.given,
            progress=watched.progress,
            on_step=watched,
            say=lambda what: print(printable(what), file=sys.stderr),  # noqa: T201
        )
    if is_main_process():
        show(summary, json=run.json)
        log(summary, loggers)
