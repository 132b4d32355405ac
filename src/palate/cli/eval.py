"""`palate eval`: from a benchmark and reward models to an honest table."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from cyclopts.types import PositiveInt

from palate.cli._options import GeneralOptions, Many, Resample, ShardOptions, ViewOptions

VIEWS, RUN, GENERAL = ViewOptions(), ShardOptions(), GeneralOptions()


def evaluate(
    benchmark: str,
    /,
    *,
    rm: Many = None,
    view: Many = None,
    strangers: PositiveInt = 3,
    resample: Resample = "auto",
    views: ViewOptions = VIEWS,
    general: GeneralOptions = GENERAL,
    run: ShardOptions = RUN,
) -> None:
    """Measure reward models on what individual users prefer.

    Run the same command again to resume. Everything is kept in a run folder; `palate report` recomputes all numbers
    from it.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    rm
        Reward model, such as `embedding`, `embedding:posts` or `./mine.py:MyReward`; may be repeated
        [default: `embedding` and the controls].
    view
        What a model may see of the user, such as `none`, `posts:5`, `values+judgements:4`, `swapped`,
        `co-annotator` or `oracle`; may be repeated [default: what the benchmark allows].
    strangers
        Number of strangers for each item under `swapped` and `co-annotator`. Their mean is reported.
    resample
        What the intervals are about: new users, or new users and new items. `auto` adds items where users judge the
        same ones.
    """
    from palate.cli._show import measure_and_show, show_general
    from palate.evaluation import evaluate as measure
    from palate.records import PalateError
    from palate.rewards import CONTROLS

    if run.shard and general.general:
        raise PalateError(
            "--general is measured on the whole run: merge the shards first, then give it without --shard"
        )
    models = rm or default_models()
    summary = measure_and_show(
        run,
        measure,
        benchmark,
        models,
        view,
        strangers=strangers,
        resample=resample,
        **views.given,
    )
    if summary is None:
        return
    show_general(general, run, summary.run, benchmark, [name for name in models if name not in CONTROLS] or models)


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
