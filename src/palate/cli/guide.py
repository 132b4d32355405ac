"""`palate guide`: reward-guided decoding, and policy accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

Many = Annotated[list[str] | None, Parameter(negative="")]
Weights = Annotated[list[float] | None, Parameter(negative="")]


def guide(
    benchmark: str,
    /,
    *,
    policy: str = "smollm2",
    policy_view: Many = None,
    rm: Many = None,
    view: Many = None,
    critic: str | None = None,
    weight: Weights = None,
    top_k: int = 10,
    chunk: int = 1,
    tokens: int = 128,
    temperature: float | None = None,
    accuracy: bool = True,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Let reward models steer a policy while it writes, and see whether it then prefers what the user prefers.

    On comparisons: policy accuracy beside reward accuracy. With a critic: what the texts are worth at each weight.
    The same command goes on where it stopped; `palate report` makes all numbers anew.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    policy
        The language model that writes, in this process.
    policy_view
        What the policy sees of the user, such as `none` or `judgements:4`; may be repeated. By default `none`.
    rm
        A reward model that guides; may be repeated. By default `embedding`.
    view
        What the reward models see of the user; may be repeated. By default `none`, the richest profile there is, and
        `swapped`, a stranger's profile of the same kind.
    critic
        Who marks the texts, such as `reference`, `rubric:MODEL` or `sim`. Without one, nothing is written.
    weight
        How much the reward counts against the log-probability; may be repeated. By default 0, 1, 5 and 25.
    top_k
        How many candidates there are at each step.
    chunk
        Tokens in a step: 1 takes the best of the likeliest tokens, more the best of as many chunks that are drawn.
    tokens
        The most tokens of a text.
    temperature
        Of the choice among tokens, 0 by default, which takes the best; or of the draw of chunks, 1 by default.
    accuracy
        Measure policy accuracy where there are comparisons.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    writer
        The language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server.
    budget
        The most that a profile may take, such as `words:300` or `tokens:500`; the least relevant goes first.
    limit
        Take no more than this many prompts, drawn by the seed.
    seed
        Decides draws, strangers and resamples.
    out
        The folder in which run folders are made.
    data
        Where data sets lie that palate does not ship. Default: the environment variable PALATE_DATA.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    from palate.cli._progress import progress_bar
    from palate.cli._show import show
    from palate.downstream import Guiding
    from palate.downstream import guide as measure
    from palate.downstream.guide._files import write_guide
    from palate.downstream.guide._terminal import print_guide

    with progress_bar(show=not json) as progress:
        summary = measure(
            benchmark,
            policy,
            rm or ["embedding"],
            critic,
            views=view,
            policy_views=policy_view or ["none"],
            guiding=Guiding(top_k=top_k, tokens=tokens, chunk=chunk, temperature=temperature),
            weights=weight,
            accuracy=accuracy,
            retriever=retriever,
            writer=writer,
            budget=budget,
            limit=limit,
            seed=seed,
            out=out,
            data_dir=data,
            progress=progress,
        )
        progress("writing the report", 0, 1)
        page = write_guide(summary)
    show(summary, page, print_guide, json=json)
