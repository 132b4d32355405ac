"""`palate merge`: one run from its shards."""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import JsonOption

JSON = JsonOption()


def merge(*runs: Path, out: Path = Path("runs"), options: JsonOption = JSON) -> None:
    """Merge the shards of a run into the run folder that one process would have made. No model is needed.

    A merge that was stopped can be repeated.

    Parameters
    ----------
    runs
        The folders of all shards, such as `runs/shard-*-of-8`, or the run folders in them.
    out
        Folder in which the run folder is made.
    """
    from palate.cli._show import progress_bar, show
    from palate.runs import merge_runs

    with progress_bar(show=not options.json) as progress:
        merged = merge_runs(runs, out, progress)
        progress("writing the report", 0, 1)
        show(merged.experiment.summarise(merged), json=options.json)
