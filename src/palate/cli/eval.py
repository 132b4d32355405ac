"""`palate eval`: from a benchmark and reward models to an honest table."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

Many = Annotated[list[str] | None, Parameter(negative="")]


def evaluate(
    benchmark: str,
    /,
    *,
    rm: Many = None,
    view: Many = None,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    strangers: PositiveInt = 3,
    limit: int | None = None,
    resample: Literal["auto", "users", "users-and-items"] = "auto",
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure reward models on what individual users prefer.

    The same command goes on where it stopped. Everything is kept in a run folder; `palate report`
    makes all numbers anew from it.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    rm
        A reward model, such as `embedding`, `embedding:posts` or `./mine.py:MyReward`; may be repeated.
        By default `embedding` and the controls.
    view
        What a model may see of the user, such as `none`, `posts:5`, `values+judgements:4`, `swapped`,
        `co-annotator` or `oracle`; may be repeated. By default what the benchmark allows.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    writer
        The language model that writes the views `persona` and `plan`: a name, or `name,url=...` for a server.
    budget
        The most that a profile may take, such as `words:300` or `tokens:500`; the least relevant goes first.
    strangers
        How many strangers each item is shown with under `swapped` and `co-annotator`. Their mean is reported.
    limit
        Rate no more than this many items, drawn by the seed.
    resample
        What the intervals are about: new users, or new users and new items. By default also items, where users
        judge the same ones.
    seed
        Decides the order of responses, strangers, samples and resamples.
    out
        The folder in which run folders are made.
    data
        Where data sets lie that palate does not ship. Default: the environment variable PALATE_DATA.
    json
        Print one JSON object, and nothing else, on standard output.
    """
    from palate.cli._progress import progress_bar
    from palate.cli._show import show
    from palate.evaluation import evaluate as measure
    from palate.evaluation import print_evaluation, write_reports
    from palate.runs import Run

    with progress_bar(show=not json) as progress:
        summary = measure(
            benchmark,
            rm or default_models(),
            view,
            retriever=retriever,
            writer=writer,
            budget=budget,
            strangers=strangers,
            limit=limit,
            resample=resample,
            seed=seed,
            out=out,
            data_dir=data,
            progress=progress,
        )
        progress("writing the report", 0, 1)
        page = write_reports(Run.open(Path(summary.run)), summary)
    show(summary, page, print_evaluation, json=json)


def default_models() -> list[str]:
    """The embedding model where it can run, and the controls."""
    from palate.rewards import CONTROLS

    if find_spec("sentence_transformers") is None:
        print(  # noqa: T201
            "palate: rating with the controls only; pip install 'palate[local]' adds the embedding model",
            file=sys.stderr,
        )
        return list(CONTROLS)
    return ["embedding", *CONTROLS]
