"""`palate adapt`: a trained model learns a new user without being trained again."""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import Written
from palate.records import printable


def adapt(
    model: Path,
    benchmark: str,
    /,
    *,
    user: str | None = None,
    output: Written = None,
    method: str | None = None,
    data: Path | None = None,
) -> None:
    """Teach a trained model users it has not met, from the history that a benchmark holds of them.

    Nothing is trained again: what is shared stays as it is, and each user is summed up from their judgements,
    posts or groups, whichever the method uses. What the model knew about these users before is replaced.

    Parameters
    ----------
    model
        A folder with a trained model, such as `runs/NAME/models/per-user`; `trained/latest/models/NAME` is of the
        newest run in `trained`.
    benchmark
        A name that `palate data list` shows, or the path of a folder or file of your own.
    user
        One user's id. By default every user who has a history.
    output
        Where to write the model that knows them. By default in place.
    method
        The method that it was trained with, where that is a file of your own, such as `./mine.py:Mine`.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    """
    from palate.data import load_benchmark
    from palate.personal import adapt_users, load_personal
    from palate.runs import find_in_run

    model = find_in_run(model)
    known = adapt_users(load_personal(model, method=method), load_benchmark(benchmark, data_dir=data), user)
    written = known.save(output or model)
    print(printable(f"{written} now knows {len(known.users):,} users"))  # noqa: T201
