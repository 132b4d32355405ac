"""A table as words, the same for terminal, Markdown and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from palate.records import printable

_SPECIAL = re.compile(r"([\\`*_\[\]|~$]|^[#+\-=]|(?<=^\d)[.)])")


class Bar(msgspec.Struct, frozen=True):
    """A share from 0 to 1 as a bar, with its interval and what it is compared with."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reference: float | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of words, then columns of numbers."""

    title: str = ""
    titles: tuple[str, ...]
    """Of the columns; a line break in one is where a terminal breaks it, and a space elsewhere."""
    words: int
    """How many of the columns hold words."""
    rows: Sequence[tuple[str, ...]]
    """A line break in a number sets what follows below it, smaller: an interval."""
    headings: bool = False
    """Whether terminal and page print the first column above its rows instead of beside them."""
    bars: Sequence[Bar] = ()
    """One for each row, before the numbers; a terminal has them where there is room."""
    extra: int = 0
    """How many of the last columns a terminal leaves out."""
    dim: bool = False
    """Whether the rows are only for comparison, such as those of controls."""
    folded: str = ""
    """What a page calls the table while it is folded away; empty where it is open."""
    note: str = ""
    """Below the table, such as what was left out of it."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.titles) for row in self.rows):
            raise ValueError(f"a row of this table does not have its {len(self.titles)} columns: {self.titles}")
        if self.bars and len(self.bars) != len(self.rows):
            raise ValueError(f"this table has {len(self.rows)} rows and {len(self.bars)} bars")

    @property
    def flat_titles(self) -> tuple[str, ...]:
        """The titles of the columns on one line each."""
        return tuple(title.replace("-\n", "").replace("\n", " ") for title in self.titles)


def one_line(cell: str) -> str:
    """A number with what stands below it in brackets.

    >>> one_line("0.412*\\n0.380 to 0.441")
    '0.412* (0.380 to 0.441)'
    """
    value, _, below = printable(cell).strip().partition("\n")
    return f"{value} ({below})" if below else value


def _plain_number(text: str) -> str:
    """A number in Markdown: only the star of a clear one and the sign of a tiny one could mean anything else."""
    return one_line(text).replace("*", r"\*").replace("<", "&lt;")


def markdown_table(table: Table) -> Iterator[str]:
    """The lines of the table in a form that any Markdown reader takes."""
    yield _line(map(safe_markdown, table.flat_titles))
    yield _line("---" if position < table.words else "---:" for position in range(len(table.titles)))
    for row in table.rows:
        yield _line([*map(safe_markdown, row[: table.words]), *map(_plain_number, row[table.words :])])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def safe_markdown(text: str) -> str:
    """Text that stays on its line and means nothing to Markdown or HTML."""
    flat = printable(" ".join(text.split()), keep="")
    escaped = _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;")
    return escaped.replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
