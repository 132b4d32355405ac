"""`palate steer`: in-context learning, best-of-N and guided decoding in one table, against what the user wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

Many = Annotated[list[str] | None, Parameter(negative="")]


def steer(
    benchmark: str,
    /,
    *,
    policy: str = "smollm2",
    rm: Many = None,
    view: Many = None,
    in_context: Many = None,
    critic: str = "reference",
    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = 16,
    temperature: float = 1.0,
    top_p: float = 0.9,
    tokens: int = 128,
    weight: float = 5.0,
    top_k: int = 10,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Set every way of steering a policy beside what the user really wrote: alone, in context, chosen, guided.

    Completions become pairs of matched length first. Each part is a run folder of its own; the same command goes on
    where it stopped, and `palate report` makes the table anew.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own, with pairs or completions.
    policy
        The language model that writes, in this process.
    rm
        A reward model that chooses and guides; may be repeated. By default `embedding`.
    view
        What the reward models see of the user; may be repeated. By default `none`, the richest profile there is, and
        `swapped`, a stranger's profile of the same kind.
    in_context
        What the policy sees of the user for in-context learning, such as `posts:5`, `posts:5@recent` or `persona`; may
        be repeated. By default the richest profile there is, and a stranger's of the same kind.
    critic
        Likeness to what the user wrote: `reference`, or `reference:rouge1,encoder=none` without embeddings.
    samples
        N of best-of-N.
    temperature
        How freely the policy writes samples.
    top_p
        The share of probability, of the likeliest tokens, that is drawn from.
    tokens
        The most tokens of a text.
    weight
        How much the reward counts against the log-probability in guided decoding.
    top_k
        How many tokens there are to choose from at each step of it.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    writer
        The language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server.
    budget
        The most that a profile may take, such as `words:300` or `tokens:500`; the least relevant goes first.
    limit
        Take no more than this many pairs, drawn by the seed.
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
    from palate.downstream import Drawing, print_steer, write_steer
    from palate.downstream import steer as measure

    with progress_bar(show=not json) as progress:
        summary = measure(
            benchmark,
            policy,
            rm or ["embedding"],
            views=view,
            in_context=in_context,
            critic=critic,
            drawing=Drawing(samples=samples, temperature=temperature, top_p=top_p, tokens=tokens),
            weight=weight,
            top_k=top_k,
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
        page = write_steer(summary)
    show(summary, page, print_steer, json=json)
