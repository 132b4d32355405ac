"""An audit as a document: findings, then sections of sentences and tables, the same for terminal and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.audit._results import Finding


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of words, then columns of numbers."""

    titles: tuple[str, ...]
    words: int
    """How many of the columns hold words."""
    rows: Sequence[tuple[str, ...]]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.titles) for row in self.rows):
            raise ValueError(f"a row of this table does not have its {len(self.titles)} columns: {self.titles}")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer."""

    title: str
    table: Table | None = None
    notes: list[str] = []
    """Sentences below the table."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit says, in the order in which it is read."""

    title: str
    size: str
    findings: list[Finding]
    sections: list[Section]
    footnote: str
