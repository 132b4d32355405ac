"""`palate bon`: best-of-N, and the in-context baseline beside it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from palate.cli._options import Many, SamplingOptions, ShardOptions, ViewOptions

SAMPLING, VIEWS, RUN = SamplingOptions(), ViewOptions(), ShardOptions()


def best_of_n(
    benchmark: str,
    /,
    *,
    critic: str,
    policy: str = "smollm2",
    policy_view: Many = None,
    rm: Many = None,
    view: Many = None,
    k: Annotated[list[int] | None, Parameter(negative="")] = None,
    sampling: SamplingOptions = SAMPLING,
    views: ViewOptions = VIEWS,
    run: ShardOptions = RUN,
) -> None:
    """Let reward models choose among a policy's own texts, and a critic say what the choice is worth.

    Run the same command again to resume. Samples are kept under `samples` in the folder of runs and drawn once for
    every run that asks for the same; `palate report` recomputes all numbers.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    critic
        Who grades the texts: `reference`, `rubric:MODEL`, `sim` or `./file.py:Name`.
    policy
        Language model that writes: a name, or `name,url=...` for a server.
    policy_view
        What the policy sees of the user, such as `judgements:4` or `persona`; may be repeated, and each has samples of
        its own [default: `none`].
    rm
        Reward model that chooses; may be repeated [default: `embedding`].
    view
        What the reward models see of the user; may be repeated [default: `none`, the richest profile there is, and
        `swapped`, strangers' profiles of the same kind].
    k
        How many samples to choose from; may be repeated [default: 1, 2, 4 and so on up to N].
    """
    from palate.cli._show import measure_and_show
    from palate.downstream import Drawing
    from palate.downstream import best_of_n as measure

    measure_and_show(
        run,
        measure,
        benchmark,
        policy,
        rm or ["embedding"],
        critic,
        views=view,
        policy_views=policy_view or ["none"],
        drawing=Drawing(**vars(sampling)),
        steps=k,
        **views.given,
    )
