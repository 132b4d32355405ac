"""What a reader should know, in words and by how much it matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec
from rich.table import Table as Grid
from rich.text import Text

Severity = Literal["warning", "note", "good"]
_STYLES = {"warning": "bold yellow", "note": "cyan", "good": "green"}


class Finding(msgspec.Struct, frozen=True):
    """What a reader should know, in words."""

    severity: Severity
    """`warning`: would mislead. `note`: worth knowing. `good`: nothing wrong here."""
    text: str


FindingType = TypeVar("FindingType", bound=Finding)


def warnings_first(findings: Iterable[FindingType]) -> list[FindingType]:
    """Then notes, then what is good, each in the order given."""
    return sorted(findings, key=lambda finding: list(_STYLES).index(finding.severity))


def findings_grid(said: Iterable[tuple[Severity, Text]]) -> Grid:
    """Findings one under the other, for a terminal."""
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for severity, text in said:
        grid.add_row(Text(severity, style=_STYLES[severity]), text)
    return grid
