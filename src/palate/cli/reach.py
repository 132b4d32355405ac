"""`palate reach`: how far a policy could follow a reward, before any is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from palate.cli._options import LoggedRunOptions, Many, SamplingOptions, ViewOptions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReachSampling(SamplingOptions):
    """How a policy samples, by default as it does in training."""

    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = 8
    """N, the number of samples for each prompt; at least 2."""
    temperature: float = 1.0
    """Sampling temperature, above 0."""
    top_p: float = 1.0
    """Nucleus sampling: the share of probability that is drawn from. Training draws from all of it."""
    tokens: int = 128
    """Maximum number of tokens of a text."""


SAMPLING, VIEWS, RUN = ReachSampling(), ViewOptions(), LoggedRunOptions()


def reach(
    benchmark: str,
    /,
    *,
    critic: str,
    policy: str = "smollm2",
    policy_view: str | None = None,
    rm: Many = None,
    view: str | None = None,
    sketch: int | None = None,
    sampling: ReachSampling = SAMPLING,
    views: ViewOptions = VIEWS,
    run: LoggedRunOptions = RUN,
) -> None:
    """Measure how far a policy could follow each reward, and what that would bring people, before training.

    One small step along the policy gradient of each reward, from one half of the users, is read on the other half.
    Run the same command again to resume. Samples are shared with `palate bon`; `palate report` recomputes all numbers.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    critic
        Who grades the texts: `reference`, `rubric:MODEL`, `sim` or `./file.py:Name`.
    policy
        Language model that would be trained: a name or a folder, with `,device=...` where that matters.
    policy_view
        What the policy sees of the user [default: the same as the reward models].
    rm
        Reward model; may be repeated [default: `embedding`].
    view
        What the reward models see of the user; they see the same of strangers, too [default: the richest profile
        there is].
    sketch
        Read every text once for all reward models, and compare gradients by random projections of this size; 32 is a
        good one. Much faster with several reward models, and approximate [default: exact gradients].
    """
    from palate.cli._show import measure_and_show
    from palate.downstream import Drawing
    from palate.downstream import reach as measure

    measure_and_show(
        run,
        measure,
        benchmark,
        policy,
        rm or ["embedding"],
        critic,
        view=view,
        policy_view=policy_view,
        drawing=Drawing(**vars(sampling)),
        sketch=sketch,
        **views.given,
    )
