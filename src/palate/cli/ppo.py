"""`palate ppo`: train a policy with a reward model, and judge it on held-out users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from palate.downstream import CHECKPOINT_EVERY, Training


def ppo(
    benchmark: str,
    /,
    *,
    rm: str,
    critic: str,
    policy: str = "smollm2",
    view: str | None = None,
    policy_view: str | None = None,
    training: Annotated[Training, Parameter(name="*")] = Training(),
    checkpoint_every: int = CHECKPOINT_EVERY,
    retriever: str = "bm25",
    writer: str = "smollm2",
    budget: str | None = None,
    limit: int | None = None,
    seed: NonNegativeInt = 0,
    out: Path = Path("runs"),
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a policy with the reward of any reward model, and let a critic judge it on held-out users.

    The same command resumes from the last checkpoint. No user, prompt or twin is on both sides. The trained policy
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
    from palate.cli._show import show
    from palate.downstream import PPO, is_main_process, watching
    from palate.downstream import ppo as train
    from palate.report import print_document
    from palate.runs import open_run, write_document

    with watching(show=not json) as watched:
        summary = train(
            benchmark,
            policy,
            rm,
            critic,
            view=view,
            policy_view=policy_view,
            training=training,
            checkpoint_every=checkpoint_every,
            retriever=retriever,
            writer=writer,
            budget=budget,
            limit=limit,
            seed=seed,
            out=out,
            data_dir=data,
            progress=watched.progress,
            on_step=watched,
            say=lambda what: print(what, file=sys.stderr),  # noqa: T201
        )
    if is_main_process():
        run = open_run(Path(summary.run), PPO)
        document = PPO.document(run, summary)
        page = write_document(run.folder, summary, document)
        show(summary, page, lambda _, console: print_document(document, console), json=json)
