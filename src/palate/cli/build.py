"""`palate build`: a benchmark from raw histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from palate.cli._options import DataOptions, Flag

if TYPE_CHECKING:
    from palate.build import Estimate, Plan

DATA = DataOptions()


def build(
    plan: Path | None = None,
    /,
    *,
    to: Path | None = None,
    out: Path = Path("runs"),
    check: Flag = False,
    dry_run: Flag = False,
    items: Path | None = None,
    answers: Path | None = None,
    example: str | None = None,
    options: DataOptions = DATA,
) -> None:
    """Build a personalised benchmark from a data dump, LaMP-QA, a forum export or your own questions and answers.

    The plan is checked whole before anything runs. Every stage writes what it made and why it left things out. Run the
    same command again to resume. A benchmark that fails the release gate is written too, and its card says so first.

    Parameters
    ----------
    plan
        A TOML file: source, selection, candidates, filters, split, gate.
    to
        Folder of the finished benchmark [default: the plan's name, in this folder].
    out
        Folder in which the build folder with all intermediate files is made.
    check
        Check the plan, and run nothing.
    dry_run
        Select the questions, say what the rest would cost at most, and ask no model.
    items
        Also write the items to this file, for people to validate with `palate collect`.
    answers
        An export of `palate collect`: put what people said of the items into the card.
    example
        Write a plan to begin with to PLAN, or print it: `stackexchange`, `divergent`, `table`, `table-twins`,
        `generated` or `lamp-qa`.
    """
    from palate.build import build as make
    from palate.build import estimate, example_plan, read_plan
    from palate.cli._show import print_json, progress_bar, show
    from palate.records import PalateError

    if example is not None:
        return _write_example(example_plan(example), plan)
    if plan is None:
        raise PalateError("name a plan: palate build PLAN.toml. An example: palate build --example stackexchange")
    if check:
        read = read_plan(plan)
        return print_json({"name": read.name, "candidates": read.candidates.kind}) if options.json else _sound(read)
    with progress_bar(show=not options.json) as progress:
        if dry_run:
            cost = estimate(plan, out=out, data_dir=options.data, progress=progress)
        else:
            summary, folder = make(
                plan, to=to, out=out, items=items, answers=answers, data_dir=options.data, progress=progress
            )
    if dry_run:
        return print_json(cost) if options.json else _show_estimate(cost)
    show(summary, json=options.json)
    return None if options.json else _finished(folder)


def _write_example(text: str, plan: Path | None) -> None:
    from palate.records import PalateError

    if plan is None:
        sys.stdout.write(text)
        return
    try:
        with plan.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PalateError(f"{plan} is there already; name another file") from None
    except OSError as error:
        raise PalateError(f"{plan} cannot be written: {error.strerror or error}") from None
    _say(f"Wrote {plan}. Put in your source and columns, then: palate build {plan}")


def _sound(plan: Plan) -> None:
    _say(f"The plan is sound: {plan.name}, {plan.candidates.kind} candidates. To build it, leave out --check.")


def _finished(folder: Path) -> None:
    _say(f"Benchmark: {folder}. Read {folder / 'CARD.md'} first; then: palate audit {_as_path(folder)}")


def _as_path(folder: Path) -> str:
    """A folder as a path, so that it is not read as the name of a benchmark."""
    return str(folder) if folder.is_absolute() else f"./{folder}"


def _say(line: str) -> None:
    from palate.report import make_console

    make_console(markup=False, soft_wrap=True).print(line)


def _show_estimate(cost: Estimate) -> None:
    from rich.table import Table

    from palate.report import make_console

    console = make_console()
    console.print(f"Selected: {cost.questions:,} questions of {cost.users:,} users.", markup=False)
    if not cost.stages:
        console.print("No language model is asked; the rest costs nothing.")
        return
    titles = ("stage", "calls", "tokens in", "tokens out", "money", "minutes")
    table = Table(*titles, box=None, header_style="bold", pad_edge=False)
    for one in cost.stages:
        money = "unknown" if one.cost is None else f"{one.cost:,.2f}"
        tokens = (f"{one.prompt_tokens:,}", f"{one.completion_tokens:,}")
        table.add_row(one.stage, f"{one.calls:,}", *tokens, money, f"{one.minutes:,.1f}")
    known = sum(one.cost or 0 for one in cost.stages)
    minutes = sum(one.minutes for one in cost.stages)
    table.add_row("all", f"{sum(one.calls for one in cost.stages):,}", "", "", f"{known:,.2f}", f"{minutes:,.1f}")
    console.print(table)
    console.print(
        "At most, if nothing is left out on the way. Minutes: 3 s a call and 32 calls at once for a server; 500 tokens "
        "read and 60 written a second for a model in this process. A cap on money: most_spent=... in the model's name.",
        markup=False,
        soft_wrap=True,
    )
