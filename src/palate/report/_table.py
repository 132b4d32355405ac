"""A table as words, the same for terminal, Markdown and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from palate.report._printable import printable

ROOMY = 100
"""Columns of a terminal from which tables are set wide."""
_SPECIAL = re.compile(r"([\\`*_\[\]|~$]|^[#+\-=]|(?<=^\d)[.)])")


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of words, then columns of numbers."""

    title: str = ""
    titles: tuple[str, ...]
    """Of the columns; a line break in one is where a terminal breaks it, and a space elsewhere."""
    words: int
    """How many of the columns hold words."""
    rows: Sequence[tuple[str, ...]]
    headings: bool = False
    """Whether a terminal prints the first column above its rows instead of beside them."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.titles) for row in self.rows):
            raise ValueError(f"a row of this table does not have its {len(self.titles)} columns: {self.titles}")


def terminal_table(
    table: Table, console: Console, *, roomy: int = ROOMY, vertical: Literal["top", "bottom"] = "bottom"
) -> Grid:
    """The table for a terminal; `vertical` says where a number stands beside words that fill several lines."""
    grid = Grid(
        box=None,
        pad_edge=False,
        padding=(0, 2 if console.width >= roomy else 1, 0, 0),
        header_style="dim",
        show_header=any(table.titles),
    )
    for position, title in enumerate(table.titles):
        numbers = position >= table.words
        justify: Literal["left", "right"] = "right" if numbers else "left"
        grid.add_column(title, justify=justify, no_wrap=numbers, overflow="fold", vertical=vertical)
    for row in table.rows:
        grid.add_row(*(printable(cell, console) for cell in row))
    return grid


def _plain_number(text: str) -> str:
    """A number in Markdown: only the star of a clear one and the sign of a tiny one could mean anything else."""
    return text.replace("*", r"\*").replace("<", "&lt;")


def markdown_table(table: Table) -> Iterator[str]:
    """The lines of the table in a form that any Markdown reader takes."""
    yield _line(map(safe_markdown, table.titles))
    yield _line("---" if position < table.words else "---:" for position in range(len(table.titles)))
    for row in table.rows:
        yield _line([*map(safe_markdown, row[: table.words]), *map(_plain_number, row[table.words :])])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def safe_markdown(text: str) -> str:
    """Text that stays on its line and means nothing to Markdown or HTML."""
    flat = " ".join(text.split())
    escaped = _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;")
    return escaped.replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
