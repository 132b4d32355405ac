"""`palate audit`: can a benchmark show personalisation, and whom does a run's model serve worse?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

Flag = Annotated[bool, Parameter(negative="")]


def audit(
    target: str,
    /,
    *,
    least: int = 5,
    users: Flag = False,
    impersonal: bool | None = None,
    seed: NonNegativeInt = 0,
    out: Path | None = None,
    runs: Path | None = None,
    data: Path | None = None,
    json: Flag = False,
) -> None:
    """Check whether a benchmark can show personalisation, or whom a run's models serve worse than others.

    Parameters
    ----------
    target
        A benchmark, by name or path; or a run folder that `palate eval` or `palate train` made.
    least
        Smallest group: groups with fewer users count as thin, and in the audit of a run are merged.
    users
        Name the users who are clearly served worse with their profile; runs only.
    impersonal
        Train a model of what everybody likes and show how far it gets; benchmarks only [default: where possible].
    seed
        Seed of resamples and shuffles.
    out
        Write the audit to this file: as a web page where its name ends in .html, else as Markdown.
    runs
        Keep the ratings of the controls in this folder, so that the same command resumes. By default they are thrown
        away. Benchmarks only.
    data
        Folder of data sets that palate does not ship [default: $PALATE_DATA].
    json
        Print one JSON object, and nothing else, on standard output.
    """
    import msgspec
    from rich.console import Console

    from palate.audit import audit as examine
    from palate.audit import audit_document, write_audit
    from palate.cli._progress import progress_bar
    from palate.report import print_document

    with progress_bar(show=not json) as progress:
        found = examine(
            target,
            least=least,
            users=users,
            impersonal=impersonal,
            seed=seed,
            runs=runs,
            data_dir=data,
            progress=progress,
        )
    if out:
        write_audit(found, out)
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    console = Console()
    print_document(audit_document(found, whole=False), console)
    if out:
        console.print()
        console.print("Audit:", out.resolve().as_uri(), markup=False, highlight=False, soft_wrap=True)
