"""`palate reproduce`: published figures, and ours beside them."""

from __future__ import annotations

from palate.cli._options import RunOptions

RUN = RunOptions()


def reproduce(
    experiment: str,
    /,
    *,
    options: RunOptions = RUN,
) -> None:
    """Run a published experiment and set our figures beside the paper's, by the paper's metric and by votes.

    Run the same command again to resume; `palate report` reads the run folder of the methods named in the table.

    Parameters
    ----------
    experiment
        `convarg`: which of two arguments convinces this voter, 32 debate sides left out in turn.
    """
    from palate.cli._show import print_json, progress_bar
    from palate.personal import REPRODUCTIONS, accuracy_lines, gain_lines, headroom_lines
    from palate.personal import reproduce as run

    with progress_bar(show=not options.json) as progress:
        reached = run(experiment, **options.given, progress=progress)
    wanted = REPRODUCTIONS[experiment]
    if options.json:
        return print_json({"experiment": wanted, "reached": reached})
    from rich.table import Table

    from palate.report import make_console

    console = make_console()
    console.print(wanted.title, style="bold", markup=False)
    console.print(wanted.source, style="dim", markup=False)
    for first, lines in (("accuracy", accuracy_lines(wanted, reached)), ("gain in points", gain_lines(reached))):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(first)
        for title in ("paper's metric", "over 50 known", "share of votes", "over 50 known"):
            table.add_column(title, justify="right", no_wrap=True)
        for line in lines:
            table.add_row(*line)
        console.print()
        console.print(table)
    console.print()
    console.print("Paper's metric: mean over sides of the mean over voters with two strict votes there.", style="dim")
    console.print("Intervals are 95% and hold for new voters and new sides.", style="dim")
    for sentence in headroom_lines(reached.headroom):
        console.print(sentence, markup=False, highlight=False)
    console.print("Chosen within the training sides, and for how many sides:", style="dim")
    for what, count in reached.chosen:
        console.print(f"  {count:2} {what}", markup=False, style="dim", highlight=False)
    console.print(f"Run: {reached.run}", markup=False, style="dim", highlight=False)
    return None
