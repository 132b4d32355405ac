"""`palate selftest`: could this data and these settings have shown an effect?"""

from __future__ import annotations

from cyclopts.types import PositiveInt

from palate.cli._options import SeedOptions

SEED = SeedOptions()


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
    options: SeedOptions = SEED,
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
    """
    from palate.audit import selftest as examine
    from palate.audit import selftest_document
    from palate.cli._show import print_json, progress_bar
    from palate.records import PalateError
    from palate.report import make_console, print_document

    try:
        sizes = [float(part) for part in points.split(",")]
    except ValueError:
        raise PalateError(f"--points takes numbers such as 2,5,10; {points!r} was given") from None
    with progress_bar(show=not options.json) as progress:
        found = examine(
            benchmark,
            view,
            points=sizes,
            tries=tries,
            retriever=retriever,
            strangers=strangers,
            limit=limit,
            **options.given,
            progress=progress,
        )
    if options.json:
        return print_json(found)
    return print_document(selftest_document(found), make_console())
