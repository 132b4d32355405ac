"""`palate guide`: reward-guided decoding, and policy accuracy."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from palate.cli._options import Many, ShardOptions, ViewOptions

VIEWS, RUN = ViewOptions(), ShardOptions()


def guide(
    benchmark: str,
    /,
    *,
    policy: str = "smollm2",
    policy_view: Many = None,
    rm: Many = None,
    view: Many = None,
    critic: str | None = None,
    weight: Annotated[list[float] | None, Parameter(negative="")] = None,
    top_k: int = 10,
    chunk: int = 1,
    tokens: int = 128,
    temperature: float | None = None,
    accuracy: bool = True,
    views: ViewOptions = VIEWS,
    run: ShardOptions = RUN,
) -> None:
    """Let reward models steer a policy while it writes, and see whether it then prefers what the user prefers.

    On comparisons: policy accuracy beside reward accuracy. With a critic: what the texts are worth at each weight.
    Run the same command again to resume; `palate report` recomputes all numbers.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    policy
        Language model that writes, in this process.
    policy_view
        What the policy sees of the user, such as `judgements:4`; may be repeated [default: `none`].
    rm
        Reward model that guides; may be repeated [default: `embedding`].
    view
        What the reward models see of the user; may be repeated [default: `none`, the richest profile there is, and
        `swapped`, a stranger's profile of the same kind].
    critic
        Who grades the texts: `reference`, `rubric:MODEL`, `sim` or `./file.py:Name`. Without one, nothing is written.
    weight
        How much the reward counts against the log-probability; may be repeated [default: 0, 1, 5 and 25].
    top_k
        Number of candidates at each step.
    chunk
        Tokens in a step: 1 takes the best of the likeliest tokens, more the best of as many sampled chunks.
    tokens
        Maximum number of tokens of a text.
    temperature
        Temperature of the choice among tokens [default: 0, which takes the best], or of sampling chunks [default: 1].
    accuracy
        Measure policy accuracy where there are comparisons.
    """
    from palate.cli._show import measure_and_show
    from palate.downstream import Guiding
    from palate.downstream import guide as measure

    measure_and_show(
        run,
        measure,
        benchmark,
        policy,
        rm or ["embedding"],
        critic,
        views=view,
        policy_views=policy_view or ["none"],
        guiding=Guiding(top_k=top_k, tokens=tokens, chunk=chunk, temperature=temperature),
        weights=weight,
        accuracy=accuracy,
        **views.given,
    )
