"""An audit as a document: findings, then sections of sentences and tables, the same for terminal and Markdown."""

from __future__ import annotations

import msgspec

from palate.audit._results import Finding
from palate.report import Table


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
