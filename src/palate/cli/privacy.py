"""`palate privacy`: what a trained model reveals about its users, and a copy that reveals less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palate.cli._options import RunOptions
from palate.records import printable

if TYPE_CHECKING:
    from rich.console import Console

    from palate.privacy import Leak

RUN = RunOptions()


def attack(
    benchmark: str,
    /,
    *,
    method: str | None = None,
    model: Path | None = None,
    features: str = "minilm+traits",
    shadows: int = 16,
    options: RunOptions = RUN,
) -> None:
    """Try to tell whose choices a model was trained on, with shadow models trained on random halves of the users.

    Run the same command again to resume.

    Parameters
    ----------
    benchmark
        Name or path of a benchmark: the people among whom members are to be found.
    method
        The kind of model to attack, such as `bradley-terry,epsilon=1` [default: `per-user`]. With `--model`, the
        method that it was trained with, where that is a file of your own.
    model
        A trained model: attack its kind, with its settings, and say what its file gives away.
    features
        What the models read of a response.
    shadows
        How many models to train; an even number, four or more.
    """
    from palate.cli._show import print_json, progress_bar
    from palate.data import load_benchmark
    from palate.personal import parse_method
    from palate.privacy import Target, target_of
    from palate.privacy import attack as measure
    from palate.runs import find_in_run

    if model is not None:
        model = find_in_run(model)
        target = target_of(model, method)
    else:
        name, privacy = parse_method(method or "per-user")
        target = Target(method=name, features=features, privacy=privacy)
    loaded = load_benchmark(benchmark, data_dir=options.data)
    with progress_bar(show=not options.json) as progress:
        leaks = measure(loaded, target, shadows=shadows, seed=options.seed, out=options.out, progress=progress)
    if options.json:
        return print_json({"target": target, "leaks": leaks})
    from palate.report import make_console

    console = make_console()
    _show(leaks, console)
    if model is not None:
        _say_what_the_file_tells(model, console)
    return None


def strip(model: Path, out: Path, /) -> None:
    """Copy a model without its users' names and states and without the hashes of what it was trained on.

    Parameters
    ----------
    model
        The folder of a trained model; `trained/latest/models/NAME` is of the newest run in `trained`.
    out
        Where to write the copy.
    """
    from palate.personal import count_points, strip_model
    from palate.runs import find_in_run

    written = strip_model(find_in_run(model), out)
    print(printable(f"{written}: the shared part only; it knows nobody by name"))  # noqa: T201
    if points := count_points(written):
        print(  # noqa: T201
            f"Its {points:,} inducing points are features of training texts, many of them of one text alone. Whoever "
            "has such a text can tell that it was there: share a model of another method where that matters."
        )


def _show(leaks: list[Leak], console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("attack", "area", "at 1% false", "at 5% false"):
        table.add_column(column, no_wrap=True)
    for leak in leaks:
        numbers = (leak.area, leak.found_at_1, leak.found_at_5)
        table.add_row(leak.attack, *(f"{one.value:.3f} ({one.low:.3f}–{one.high:.3f})" for one in numbers))
        if leak.area.allowed is not None:
            table.add_row("most by epsilon", *(f"{one.allowed:.3f}" for one in numbers))
    console.print(table)
    first = leaks[0]
    console.print(
        f"{first.users:,} users, {first.shadows} shadow models; 95% intervals over both. Guessing has an area of 0.5.",
        soft_wrap=True,
    )


def _say_what_the_file_tells(model: Path, console: Console) -> None:
    from palate.personal import count_marks, describe_model

    users, marks = len(describe_model(model).users), count_marks(model)
    console.print(
        f"{model} itself names {users:,} users and marks {marks:,} choices that it was trained on: whoever has the "
        "file needs no attack to tell members. palate privacy strip makes a copy without them.",
        markup=False,
        soft_wrap=True,
    )
