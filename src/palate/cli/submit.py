"""`palate submit`: check a run that somebody sends, and read results of other programs."""

from __future__ import annotations

from pathlib import Path

from palate.cli._options import DataOptions, Folder

DATA = DataOptions()


def check(
    run: Folder,
    /,
    *,
    benchmark: str | None = None,
    seal: str | None = None,
    board: Path | None = None,
    options: DataOptions = DATA,
) -> None:
    """Check that a run is complete, of the right benchmark, recomputes to what it claims, and was not edited.

    Every check says whether it passed, failed or could not be made. Where one failed, the exit code is 2.

    Parameters
    ----------
    run
        A run folder of `palate eval` or `palate train`; `latest` is the newest in `runs`.
    benchmark
        The benchmark, by name or path, if it is not under the name that the run gives.
    seal
        The seal that the maker of the run published. This command prints it.
    board
        Folder of a site that holds the run already: its lines must still be those that were recorded.
    """
    from rich.console import Console
    from rich.text import Text

    from palate.cli._show import print_json
    from palate.leaderboard import check_submission
    from palate.records import PalateError
    from palate.report import printable
    from palate.runs import run_to_read
    from palate.storage import address_of

    run = run_to_read(run)
    checked = check_submission(run, benchmark=benchmark, seal=seal, board=board, **options.given)
    if options.json:
        print_json(checked)
    else:
        console = Console(highlight=False)
        styles = {"passed": "green", "failed": "bold red", "not checked": "yellow"}
        for clause in checked.clauses:
            remark = f" ({clause.remark})" if clause.remark else ""
            verdict = Text(f"{clause.verdict:<12}", style=styles[clause.verdict])
            console.print(verdict.append(clause.clause).append_text(printable(remark, console, "dim")))
        console.print(f"seal: {checked.seal}", soft_wrap=True)
    if checked.failed:
        raise PalateError(
            f"{address_of(run)} cannot be accepted: {len(checked.failed)} of {len(checked.clauses)} checks failed"
        )


def import_results(
    file: Path,
    benchmark: str,
    /,
    *,
    model: str | None = None,
    out: Path = Path("runs"),
    options: DataOptions = DATA,
) -> None:
    """Make a run of a result file of reward-bench or inspect_ai. What the file does not say is named.

    Parameters
    ----------
    file
        `NAME_outputs.jsonl` of reward-bench, or a log of inspect_ai (`.eval` or `.json`).
    benchmark
        The benchmark that the results are about, by name or path.
    model
        What to call the model [default: what the file says].
    out
        Folder in which the run folder is made.
    """
    from palate.cli._show import show
    from palate.leaderboard import import_results as read

    show(read(file, benchmark, model=model, out=out, **options.given), json=options.json)
