"""`palate leaderboard`: many runs, one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from palate.cli._options import IN_BUCKET, OUTPUT, Flag, Folder, JsonOption

JSON = JsonOption()


def leaderboard(
    runs: Annotated[list[Path], Parameter(negative=""), IN_BUCKET],
    /,
    *,
    output: Annotated[Folder, OUTPUT] = Path("site"),
    about: Path | None = None,
    reason: str = "",
    without_users: Flag = False,
    title: str = "Leaderboard",
    seed: NonNegativeInt = 0,
    options: JsonOption = JSON,
) -> None:
    """Rank the models of many runs in a static site, with ranks that a paired test over users supports.

    The site opens from a disk or any web server, without network. Runs of different versions of a benchmark, runs that
    are not complete, and two runs of one model that disagree are refused.

    Parameters
    ----------
    runs
        Run folders, or folders that hold them, here or in a bucket.
    output
        Folder of the site, here or in a bucket. What it held before is brought up to date; its manifest only grows.
    about
        A TOML file with the size, licence, link and number of tried variants of models.
    reason
        Why entries change or go, for the manifest. Needed where a run that was on the board is gone or is not the same.
    without_users
        Leave out everything about single users: items, profiles, outcomes. For boards that are published.
    title
        Title of the page.
    seed
        Seed of the resamples and of the halves of users.
    """
    from rich.console import Console

    from palate.cli._show import print_json, progress_bar
    from palate.leaderboard import leaderboard as build
    from palate.report import count, print_document
    from palate.runs import runs_to_read
    from palate.storage import folder_to_change, url_of

    with progress_bar(show=not options.json) as progress:
        site = build(
            runs_to_read(runs),
            folder_to_change(output),
            about=about,
            reason=reason,
            users=not without_users,
            title=title,
            seed=seed,
            progress=progress,
        )
    if options.json:
        return print_json(site.summary)
    console = Console()
    print_document(site.document, console)
    console.print()
    if site.summary.left_out:
        console.print(f"Left out: {count(len(site.summary.left_out), 'run')} of other kinds", highlight=False)
    console.print(f"Manifest: {count(len(site.events), 'line')} added", highlight=False)
    page = url_of(site.page) or site.page.resolve().as_uri()
    console.print("Board:", page, markup=False, highlight=False, soft_wrap=True)
    return None
