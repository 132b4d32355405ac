"""`palate audit`: can a benchmark show personalisation, and whom does a run's model serve worse?"""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import Flag, SeedOptions

SEED = SeedOptions()


def audit(
    target: str,
    /,
    *,
    least: int = 5,
    users: Flag = False,
    impersonal: bool | None = None,
    out: Path | None = None,
    runs: Path | None = None,
    options: SeedOptions = SEED,
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
    out
        Write the audit to this file: as a web page where its name ends in .html, else as Markdown.
    runs
        Keep the ratings of the controls in this folder, so that the same command resumes. By default they are thrown
        away. Benchmarks only.
    """
    from rich.console import Console

    from palate.audit import audit as examine
    from palate.audit import audit_document, write_audit
    from palate.cli._show import print_json, progress_bar
    from palate.report import print_document

    with progress_bar(show=not options.json) as progress:
        found = examine(
            target, least=least, users=users, impersonal=impersonal, runs=runs, **options.given, progress=progress
        )
    if out:
        write_audit(found, out)
    if options.json:
        return print_json(found)
    console = Console()
    print_document(audit_document(found, whole=False), console)
    if out:
        console.print()
        console.print("Audit:", out.resolve().as_uri(), markup=False, highlight=False, soft_wrap=True)
    return None
