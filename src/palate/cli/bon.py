"""`palate bon`: best-of-N, and the in-context baseline beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

Many = Annotated[list[str] | None, Parameter(negative="")]
Numbers = Annotated[list[int] | None, Parameter(negative="")]


def best_of_n(
    benchmark: str,
    /,
    *,
    critic: str,
    policy: str = "smollm2",
    policy_view: Many = None,
    rm: Many = None,
    view: Many = None,
    samples: Annotated[int, Parameter(name=["-n", "--samples"])] = 16,
    k: Numbers = None,
    temperature: float = 1.0,
    top_p: float = 0.9,
    tokens: int = 256,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Let reward models choose among a policy's own texts, and a critic say what the choice is worth.

    The same command goes on where it stopped. Samples are kept under `samples` in the folder of runs and drawn
    once for every run that asks for the same; `palate report` makes all numbers anew.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    critic
        Who marks the texts, such as `reference`, `rubric:MODEL` or `sim`.
    policy
        The language model that writes: a name, or `name,url=...` for a server.
    policy_view
        What the policy sees of the user, such as `none`, `judgements:4` or `persona`; may be repeated, and each has
        samples of its own. By default `none`.
    rm
        A reward model that chooses; may be repeated. By default `embedding`.
    view
        What the reward models see of the user; may be repeated. By default `none`, the richest profile there is, and
        `swapped`, strangers' profiles of the same kind.
    samples
        N, the number of texts for each prompt.
    k
        How many of them to choose from; may be repeated. By default 1, 2, 4 and so on up to N.
    temperature
        How freely the policy writes; 0 takes the likeliest token every time.
    top_p
        The share of probability, of the likeliest tokens, that is drawn from.
    tokens
        The most tokens of a text.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    writer
        The language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server.
    budget
        The most that a profile may take, such as `words:300` or `tokens:500`; the least relevant goes first.
    limit
        Take no more than this many prompts, drawn by the seed.
    seed
        Decides samples, strangers and resamples.
    out
        The folder in which run folders are made.
    data
        Where data sets lie that palate does not ship. Default: the environment variable PALATE_DATA.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    from palate.cli._progress import progress_bar
    from palate.cli._show import show
    from palate.downstream import Drawing, print_best_of_n, write_best_of_n
    from palate.downstream import best_of_n as measure

    with progress_bar(show=not json) as progress:
        summary = measure(
            benchmark,
            policy,
            rm or ["embedding"],
            critic,
            views=view,
            policy_views=policy_view or ["none"],
            drawing=Drawing(samples=samples, temperature=temperature, top_p=top_p, tokens=tokens),
            steps=k,
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
        page = write_best_of_n(summary)
    show(summary, page, print_best_of_n, json=json)
