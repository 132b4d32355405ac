"""The report in a terminal, read at a glance; plain text where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from palate.evaluation._report._groups import Group, Row, condensed, groups
from palate.evaluation._report._reading import NO_PERSONAL_GAIN, Reading, readings
from palate.evaluation._results import Gain, Result, Summary
from palate.report import printable
from palate.report._numbers import CLEAR, count, percent, percent_interval, points, points_interval

BAR_CELLS = 20
INDENT = 2
ROOM_FOR_BAR = 104
"""From this many columns on, the table has a bar for each accuracy."""

_TITLES = ("accuracy", "95%", "over\nnone", "over\nswapped", "oracle\ngap", "ties", "un-\nscored", "n")


class _Paper(msgspec.Struct):
    """What the terminal can show."""

    console: Console
    widths: tuple[int, ...]
    """Of the view and of each number, from what the columns hold."""
    bar: bool

    def plain(self, text: str, style: str = "") -> Text:
        """A name or number that cannot move the cursor, colour anything or fail to be written."""
        return printable(text, self.console, style)


def render_terminal(summary: Summary, console: Console) -> None:
    """Print the table, the warnings and what the numbers say."""
    found = groups(summary)
    paper = _paper(console, found)
    _print_title(paper, summary)
    console.print(_table(paper, [], style="", head=True))
    for group in found:
        if not group.control:
            _print_group(paper, group)
    controls = [group for group in found if group.control]
    if controls:
        console.print()
        console.print(paper.plain("Controls, which understand nothing", style="dim italic"))
        for group in controls:
            _print_group(paper, group, style="dim")
    _print_footnote(paper, summary)
    _print_over_baseline(paper, summary)
    _print_warnings(paper, summary)
    _print_readings(paper, readings(summary))


def _paper(console: Console, found: list[Group]) -> _Paper:
    bar = console.is_terminal and not console.options.ascii_only and console.width >= ROOM_FOR_BAR
    rows = [row for group in found for row in condensed(group)]
    columns = zip(_TITLES, *map(_figures, rows), strict=True)
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    fixed = INDENT + sum(widths) + len(widths) + (BAR_CELLS + 1 if bar else 0)
    wanted = max((cell_len(row.label) for row in rows), default=4)
    return _Paper(console, (max(8, min(wanted, console.width - fixed)), *widths), bar)


def _print_title(paper: _Paper, summary: Summary) -> None:
    title = paper.plain(summary.benchmark_title, style="bold")
    size = f"  {count(summary.items, 'item')}, {count(summary.users, 'user')}, seed {summary.seed}"
    title.append(size, style="dim")
    paper.console.print(title)
    if summary.split:
        paper.console.print(paper.plain(summary.split, style="dim"))
    paper.console.print()


def _print_group(paper: _Paper, group: Group, style: str = "") -> None:
    paper.console.print(paper.plain(group.rm, style=style or "bold"))
    paper.console.print(_table(paper, list(condensed(group)), style=style))


def _table(paper: _Paper, rows: list[Row], *, style: str, head: bool = False) -> Padding:
    """Tables of one model each share their widths, so that they read as one."""
    table = Table(box=None, show_header=head, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("view", width=paper.widths[0], overflow="fold", vertical="bottom")
    if paper.bar:
        table.add_column("", width=BAR_CELLS, no_wrap=True)
    for title, width in zip(_TITLES, paper.widths[1:], strict=True):
        table.add_column(title, width=width, justify="right", no_wrap=True, vertical="bottom")
    for row in rows:
        table.add_row(*_cells(paper, row, style), style=style)
    return Padding(table, (0, 0, 0, INDENT))


def _cells(paper: _Paper, row: Row, style: str) -> Iterator[Text]:
    result = row.result
    yield paper.plain(row.label)
    colour = "" if style else _colour(result)
    if paper.bar:
        yield _bar(result, colour)
    quiet = style or "dim"
    styles = (colour, quiet, style, style, style)
    counts = (quiet if number == 0 else style for number in (result.ties, result.unscored))
    for figure, look in zip(_figures(row), (*styles, *counts, style), strict=True):
        yield paper.plain(figure, style=look)


def _figures(row: Row) -> tuple[str, ...]:
    """The numbers of a row, as written in its columns."""
    result, gap = row.result, row.result.oracle_gap_closed
    return (
        percent(result.accuracy),
        percent_interval(result.low, result.high).replace("–", "-"),
        _marked(row.over_none),
        _marked(row.over_stranger),
        percent(gap.value) if gap else "",
        f"{result.ties:,}",
        f"{result.unscored:,}",
        f"{result.n:,}",
    )


def _colour(result: Result) -> str:
    """Green where the interval is above chance, red where it is below, none where it holds chance."""
    if result.low is None or result.high is None or result.chance is None:
        return ""
    if result.low > result.chance:
        return "green"
    return "red" if result.high < result.chance else ""


def _bar(result: Result, colour: str) -> Text:
    """A bar from 0 to 100%, with a notch at chance."""
    filled = round(BAR_CELLS * (result.accuracy or 0.0))
    bar = Text("━" * filled, style=colour)
    bar.append("╌" * (BAR_CELLS - filled), style="dim")
    if result.chance is not None and 0 < result.chance < 1:
        notch = min(BAR_CELLS - 1, int(BAR_CELLS * result.chance))
        bar = Text.assemble(bar[:notch], ("┃", "bold"), bar[notch + 1 :])
    return bar


def _marked(gain: Gain | None) -> str:
    if gain is None:
        return ""
    return points(gain.gain) + ("*" if gain.q < CLEAR else " ")


def _print_footnote(paper: _Paper, summary: Summary) -> None:
    chances = {percent(result.chance) for result in summary.results if result.chance is not None}
    chance = f"Chance is {chances.pop()}. " if len(chances) == 1 else ""
    note = (
        f"{chance}Gains in points; * is q < .05 over all gains. Ties count their fair share, unscored items "
        f"neither way. Intervals are 95% and resample {summary.resampled}."
    )
    paper.console.print()
    paper.console.print(paper.plain(note, style="dim"))
    for line in summary.strangers:
        paper.console.print(paper.plain(" ".join(line.split()), style="dim"))


def _print_over_baseline(paper: _Paper, summary: Summary) -> None:
    """For training runs: each model against the impersonal one, by how much is known of the user."""
    if not summary.over_baseline:
        return
    paper.console.print()
    title = paper.plain(f"Against {summary.over_baseline[0].than}: a better model or not", style="bold")
    title.append_text(paper.plain(f"  {NO_PERSONAL_GAIN}", style="dim"))
    paper.console.print(title)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("view", overflow="fold")
    table.add_column("known of the user")
    for heading in ("difference", "95%", "users", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown: tuple[str, str] | None = None
    order = list(dict.fromkeys((one.rm, one.view) for one in summary.over_baseline))
    for one in sorted(summary.over_baseline, key=lambda one: order.index((one.rm, one.view))):
        if shown is None or shown[0] != one.rm:
            table.add_row(paper.plain(one.rm))
        label = "" if shown == (one.rm, one.view) else f"  {one.view}"
        shown = (one.rm, one.view)
        known = "all users" if one.known == "any" else f"{one.known} judgements"
        gain = points(one.difference) + ("*" if one.q < CLEAR else " ")
        figures = (gain, points_interval(one.low, one.high), f"{one.users:,}", f"{one.n:,}")
        table.add_row(paper.plain(label), known, *(paper.plain(figure) for figure in figures))
    paper.console.print(Padding(table, (0, 0, 0, INDENT)))


def _print_warnings(paper: _Paper, summary: Summary) -> None:
    warnings = list(summary.warnings)
    if not summary.complete:
        warnings.insert(0, "not every item is rated yet; the numbers will change")
    if warnings:
        paper.console.print()
    for warning in warnings:
        line = paper.plain("Warning: ", style="bold yellow")
        line.append_text(paper.plain(" ".join(warning.split())))
        paper.console.print(line)


def _print_readings(paper: _Paper, found: list[Reading]) -> None:
    for reading in found:
        paper.console.print()
        paper.console.print(paper.plain(" ".join(reading.text.split())))
