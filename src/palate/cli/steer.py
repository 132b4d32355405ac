"""`palate steer`: in-context learning, best-of-N and guided decoding in one table, against what the user wrote."""

from __future__ import annotations

from palate.cli._options import Many, SamplingOptions, ShardOptions, ViewOptions

SAMPLING, VIEWS, RUN = SamplingOptions(tokens=128), ViewOptions(), ShardOptions()


def steer(
    benchmark: str,
    /,
    *,
    policy: str = "smollm2",
    rm: Many = None,
    view: Many = None,
    in_context: Many = None,
    critic: str = "reference",
    weight: float = 5.0,
    top_k: int = 10,
    sampling: SamplingOptions = SAMPLING,
    views: ViewOptions = VIEWS,
    run: ShardOptions = RUN,
) -> None:
    """Set every way of steering a policy beside what the user really wrote: alone, in context, chosen, guided.

    Completions become pairs of matched length first. Each part is a run folder of its own. Run the same command again
    to resume; `palate report` recomputes the table.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own, with pairs or completions.
    policy
        Language model that writes, in this process.
    rm
        Reward model that chooses and guides; may be repeated [default: `embedding`].
    view
        What the reward models see of the user; may be repeated [default: `none`, the richest profile there is, and
        `swapped`, a stranger's profile of the same kind].
    in_context
        What the policy sees of the user for in-context learning, such as `posts:5`, `posts:5@recent` or `persona`; may
        be repeated [default: the richest profile there is, and a stranger's of the same kind].
    critic
        Likeness to what the user wrote: `reference`, or `reference:rouge1,encoder=none` without embeddings.
    weight
        How much the reward counts against the log-probability in guided decoding.
    top_k
        How many tokens there are to choose from at each step of it.
    """
    from palate.cli._show import measure_and_show
    from palate.downstream import Drawing
    from palate.downstream import steer as measure

    measure_and_show(
        run,
        measure,
        benchmark,
        policy,
        rm or ["embedding"],
        views=view,
        in_context=in_context,
        critic=critic,
        drawing=Drawing(**vars(sampling)),
        weight=weight,
        top_k=top_k,
        **views.given,
    )
