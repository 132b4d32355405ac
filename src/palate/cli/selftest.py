"""`palate selftest`: could this data and these settings have shown an effect?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt


def selftest(
    benchmark: str,
    /,
    *,
    view: str | None = None,
    points: str = "2,5,10,20",
    tries: PositiveInt = 50,
    retriever: str = "bm25",
    strangers: PositiveInt = 3,
    limit: PositiveInt | None = None,
    seed: NonNegativeInt = 0,
    data: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Plant tastes of known size in your own data, and remove them: which would `palate eval` have found?

    The people, texts, histories, views, strangers and statistics are those of the real measurement. Only the labels
    are made up. Nothing is written, and no reward model is needed.

    Parameters
    ----------
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    view
        What a model may see of the user, such as `judgements:4`. By default what `palate eval` shows.
    points
        What the planted taste is worth to a model that knows it, in points of accuracy; several with commas.
    tries
        Number of tries for each, with new labels every time.
    retriever
        How history is picked: `bm25`, `minilm`, `contriever`, `recent` or `random`.
    strangers
        Number of strangers for each item.
    limit
        Maximum number of items, drawn by the seed.
    seed
        Seed of the labels, strangers and resamples.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    json
        Print one JSON object, and nothing else, on standard output.
    """
    import msgspec
    from rich.console import Console

    from palate.audit import selftest as examine
    from palate.audit import selftest_document
    from palate.cli._progress import progress_bar
    from palate.records import PalateError
    from palate.report import print_document

    try:
        sizes = [float(part) for part in points.split(",")]
    except ValueError:
        raise PalateError(f"--points takes numbers such as 2,5,10; {points!r} was given") from None
    with progress_bar(show=not json) as progress:
        found = examine(
            benchmark,
            view,
            points=sizes,
            tries=tries,
            retriever=retriever,
            strangers=strangers,
            limit=limit,
            seed=seed,
            data_dir=data,
            progress=progress,
        )
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    print_document(selftest_document(found), Console())
