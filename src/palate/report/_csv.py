"""The main numbers as CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io

from palate.report._document import Cell, Document
from palate.report._table import Table, one_line

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def document_csv(document: Document) -> str:
    """Full precision where the document has it, else the tables of its first section one after the other."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    if document.columns is not None:
        writer.writerow(document.columns.names)
        writer.writerows([_inert(cell) for cell in row] for row in document.columns.rows)
        return text.getvalue()
    before: tuple[str, ...] = ()
    for table in (block for section in document.sections[:1] for block in section.blocks if isinstance(block, Table)):
        if table.titles != before:
            writer.writerow(("table", *table.flat_titles))
        before = table.titles
        writer.writerows(
            [
                _inert(table.title),
                *map(_inert, row[: table.words]),
                *map(one_line, row[table.words :]),
            ]
            for row in table.rows
        )
    return text.getvalue()


def _inert(cell: Cell) -> Cell:
    """A name that a spreadsheet takes for text: an apostrophe goes before what would start a formula."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULA_STARTS):
        return "'" + cell
    return cell
