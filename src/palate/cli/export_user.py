"""`palate data export-user`: everything that is held on one person, for that person."""

from __future__ import annotations

import os
from pathlib import Path

from palate.cli._options import Folders


def export_user(
    spec: str,
    user: str,
    /,
    *,
    run: Folders = None,
    model: Folders = None,
    out: Path = Path("user.json"),
    data: Path | None = None,
) -> None:
    """Write one JSON file with everything that is held on one user.

    Parameters
    ----------
    spec
        Name or path of a benchmark.
    user
        The user's id, exactly.
    run
        A run folder of any kind to look into as well, with its models and the samples beside it; may be repeated.
    model
        The folder of a trained model to look into as well; may be repeated.
    out
        The file to write; only its owner may read it.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    """
    import msgspec

    from palate.cli._progress import progress_bar
    from palate.data import load_benchmark
    from palate.privacy import export_user as gather
    from palate.records import PalateError

    benchmark = load_benchmark(spec, data_dir=data)
    with progress_bar() as progress:
        found = gather(benchmark, user, run or (), model or (), progress)
    content = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise PalateError(f"{out} cannot be written: {error.strerror or error}") from error
    lines = sum(sum(one.files.values()) for one in found.runs)
    samples = sum(one.kind == "samples" for one in found.runs)
    print(  # noqa: T201
        f"{out}: {len(found.user.posts)} posts, {len(found.user.judgements)} judgements, "
        f"{len(found.comparisons)} comparisons, {len(found.completions)} completions, "
        f"{len(found.models)} models, {len(found.runs) - samples} runs, {samples} sets of samples, "
        f"{lines:,} lines of these"
    )
    for note in found.notes:
        print(f"Note: {note}")  # noqa: T201
