"""`palate merge`: one run from its shards."""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import Folder, JsonOption

JSON = JsonOption()


def merge(*runs: Folder, out: Folder = Path("runs"), options: JsonOption = JSON) -> None:
    """Merge the shards of a run into the run folder that one process would have made. No model is needed.

    A merge that was stopped can be repeated.

    Parameters
    ----------
    runs
        The folders of all shards, such as `runs/shard-*-of-8`, or the run folders in them; also in a bucket, such as
        `s3://bucket/runs/shard-*-of-8`.
    out
        Folder in which the run folder is made.
    """
    from palate.cli._show import print_report, progress_bar, write_report
    from palate.runs import folder_for_runs, merge_runs, runs_to_read

    with progress_bar(show=not options.json) as progress:
        merged = merge_runs(runs_to_read(runs), folder_for_runs(out), progress)
        progress("writing the report", 0, 1)
        summary = merged.experiment.summarise(merged)
        document = write_report(summary)
    print_report(summary, document, json=options.json)
