"""A document in a terminal, read at a glance; plain text where there is no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from palate.records import printable as without_controls
from palate.report._document import Document, Finding, Note, Section
from palate.report._numbers import MINUS
from palate.report._table import Bar, Table

INDENT = 2
ROOMY = 100
"""Columns of a terminal from which tables are set wide."""
ROOM_FOR_BAR = 104
"""Columns of a terminal from which a table shows its bars."""
BAR_CELLS = 20
NARROWEST = 8
"""Columns of a terminal that words under a heading have at least."""
_STYLES = {"warning": "bold yellow", "note": "cyan", "good": "green"}


class _Shown:
    """Anything that rich can print, with other people's escape sequences made visible and rich's own kept."""

    def __init__(self, content: ConsoleRenderable) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._content, options):
            yield segment if segment.control else Segment(without_controls(segment.text), segment.style)


class _PrintableOnly(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(one) for one in renderables]


def make_console(*, stderr: bool = False, quiet: bool = False, markup: bool = True, soft_wrap: bool = False) -> Console:
    """The console that every command prints with: no text of a data set, a run or a model can command the terminal."""
    console = Console(stderr=stderr, quiet=quiet, markup=markup, soft_wrap=soft_wrap, highlight=False)
    console.push_render_hook(_PrintableOnly())
    return console


def printable(text: str, console: Console, style: str = "") -> Text:
    """Text that cannot move the cursor, colour anything or fail to be written."""
    kept = without_controls(text, keep="").replace(MINUS, "-")
    encoding = console.encoding or "utf-8"
    if encoding.lower().replace("-", "") != "utf8":
        kept = kept.replace("–", "-").encode(encoding, "replace").decode(encoding)
    return Text(kept, style=style)


def print_document(document: Document, console: Console) -> None:
    """Print what was measured, the essential sections, and what they say."""
    title = printable(document.title, console, "bold")
    title.append_text(printable(f"  {document.size}", console, "dim"))
    console.print(title)
    if document.lead:
        console.print(printable(document.lead, console))
    for section in document.sections:
        if section.terminal:
            _print_section(section, console)
    unfinished = [Finding("warning", document.unfinished)] if document.unfinished else []
    _print_findings([*unfinished, *document.findings], console)


def print_table(table: Table, console: Console) -> None:
    """Print one table with its title and note."""
    _print_tables([table], "", console)


def _print_section(section: Section, console: Console) -> None:
    console.print()
    console.print(printable(section.title, console, "bold"))
    tables: list[Table] = []
    for block in section.blocks:
        if isinstance(block, Table):
            tables.append(block)
        elif isinstance(block, Note):
            _print_tables(tables, section.title, console)
            tables = []
            console.print(Padding(printable(block.text, console), (0, 0, 0, INDENT)))
    _print_tables(tables, section.title, console)
    for line in section.small_print:
        console.print(printable(line, console, "dim"))


def _print_tables(tables: Sequence[Table], above: str, console: Console) -> None:
    """One under the other. Those with the same columns share their widths, and the head of the first serves all."""
    before: tuple[str, ...] = ()
    for position, table in enumerate(tables):
        alike = [other for other in tables if other.titles == table.titles]
        if position:
            console.print()
        if table.title and table.title != above:
            console.print(printable(table.title, console, "dim italic" if table.dim else "italic"))
        if table.headings:
            _print_under_headings(table, alike, console, head=table.titles != before)
        else:
            console.print(Padding(_grid(table, console, widths=_narrowed(table, console)), (0, 0, 0, INDENT)))
        if table.note:
            console.print(Padding(printable(table.note, console, "dim"), (0, 0, 0, INDENT)))
        before = table.titles


def _print_under_headings(table: Table, alike: Sequence[Table], console: Console, *, head: bool) -> None:
    """The first column above its rows. Tables of one heading each share their widths, so that they read as one."""
    kept = len(table.titles) - table.extra
    columns = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in zip(table.titles, *(row for other in alike for row in other.rows), strict=True)
    ][1:kept]
    bar = BAR_CELLS + 1 if _has_bars(table, console) else 0
    too_wide = INDENT + sum(columns) + len(columns) + bar - console.width
    columns[0] = max(NARROWEST, columns[0] - max(0, too_wide))

    def grid(titles: tuple[str, ...], places: Iterable[int]) -> Padding:
        own = list(places)
        part = Table(
            titles=titles[1:],
            words=table.words - 1,
            rows=[table.rows[place][1:] for place in own],
            bars=[table.bars[place] for place in own] if table.bars else (),
            extra=table.extra,
            dim=table.dim,
        )
        widths = [*columns[: table.words - 1], *([BAR_CELLS] if bar else []), *columns[table.words - 1 :]]
        return Padding(_grid(part, console, widths=widths), (0, 0, 0, INDENT))

    if head:
        console.print(grid(table.titles, ()))
    for heading, rows in groupby(enumerate(table.rows), key=lambda row: row[1][0]):
        console.print(printable(heading, console, "dim" if table.dim else "bold"))
        console.print(grid(("",) * len(table.titles), map(itemgetter(0), rows)))


def _narrowed(table: Table, console: Console) -> list[int]:
    """Widths for a table that is too wide, in which the widest column of words gives way; none where it fits."""
    kept = len(table.titles) - table.extra
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in zip(table.titles, *table.rows, strict=True)
    ][:kept]
    bars = [BAR_CELLS] if _has_bars(table, console) else []
    too_wide = INDENT + sum(widths) + kept + sum(bars) + len(bars) - console.width
    widest = max(range(table.words), key=widths.__getitem__, default=None)
    if too_wide <= 0 or widest is None or widths[widest] - too_wide < NARROWEST:
        return []
    widths[widest] -= too_wide
    return [*widths[: table.words], *bars, *widths[table.words :]]


def _grid(table: Table, console: Console, *, widths: Sequence[int] = ()) -> Grid:
    """The table for a terminal; its columns are as wide as they must be, or as `widths` says."""
    kept = len(table.titles) - table.extra
    bars = _has_bars(table, console)
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, 2 if console.width >= ROOMY and not widths else 1, 0, 0),
        header_style="dim",
        show_header=any(table.titles),
    )
    for position, title in enumerate(table.titles[:kept]):
        if position == table.words and bars:
            grid.add_column("", width=BAR_CELLS, no_wrap=True)
        numbers = position >= table.words
        justify: Literal["left", "right"] = "right" if numbers else "left"
        grid.add_column(
            without_controls(title), justify=justify, no_wrap=numbers, overflow="fold",
            min_width=None if numbers else NARROWEST,
        )  # fmt: skip
    for column, width in zip(grid.columns, widths, strict=False):
        column.width = width
    starred = [any(row[position].split("\n")[0].endswith("*") for row in table.rows) for position in range(kept)]
    for place, row in enumerate(table.rows):
        bar = table.bars[place] if table.bars else None
        colour = "" if table.dim else _colour(bar)
        lines = [_broken(cell, width) for cell, width in zip(row, widths or [console.width] * len(row), strict=False)]
        words = [Text("\n").join(printable(line, console) for line in cell) for cell in lines[: table.words]]
        numbers_shown = [
            _number(
                row[position],
                starred[position],
                _colour(bar) if position == table.words and not table.dim else "",
                console,
            )
            for position in range(table.words, kept)
        ]
        drawn = [_bar(bar, colour)] if bars and bar else []
        grid.add_row(*words, *drawn, *numbers_shown, style="dim" if table.dim else None)
    return grid


def _broken(cell: str, width: int) -> list[str]:
    """A name that is too wide, such as a view of several parts, broken after a plus sign and not within a word.

    >>> _broken("judgements:16+demographics", 20)
    ['judgements:16+', 'demographics']
    """
    if cell_len(cell) <= width or " " in cell:
        return [cell]
    first, *rest = re.split(r"(?<=\+)", cell)
    lines = [first]
    for piece in rest:
        if cell_len(lines[-1] + piece) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return lines


def _has_bars(table: Table, console: Console) -> bool:
    wide = console.is_terminal and not console.options.ascii_only and console.width >= ROOM_FOR_BAR
    return wide and bool(table.bars or (not table.rows and table.titles))


def _number(cell: str, starred: bool, colour: str, console: Console) -> Text:
    """A number, right of which there is room for a star where its column has one; what is below it is dim."""
    value, _, below = cell.partition("\n")
    room = " " if starred and not value.endswith(("*", " ")) else ""
    text = printable(value + room, console, colour or ("dim" if value.strip() == "0" else ""))
    if below:
        text.append("\n").append_text(printable(below + (" " if starred else ""), console, "dim"))
    return text


def _colour(bar: Bar | None) -> str:
    """Green where the interval is above the reference, red where it is below, none where it holds it."""
    if bar is None or bar.low is None or bar.high is None or bar.reference is None:
        return ""
    if bar.low > bar.reference:
        return "green"
    return "red" if bar.high < bar.reference else ""


def _bar(bar: Bar, colour: str) -> Text:
    """A bar from 0 to 100%, with a notch at its reference."""
    filled = round(BAR_CELLS * (bar.value or 0.0))
    text = Text("━" * filled, style=colour)
    text.append("╌" * (BAR_CELLS - filled), style="dim")
    if bar.reference is not None and 0 < bar.reference < 1:
        notch = min(BAR_CELLS - 1, int(BAR_CELLS * bar.reference))
        text = Text.assemble(text[:notch], ("┃", "bold"), text[notch + 1 :])
    return text


def _print_findings(findings: Sequence[Finding], console: Console) -> None:
    """What the numbers say, one under the other."""
    if not findings:
        return
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        severity = Text(finding.severity, style=_STYLES[finding.severity])
        grid.add_row(severity, printable(" ".join(finding.sentence.split()), console))
    console.print()
    console.print(grid)
