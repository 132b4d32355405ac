"""A document as Markdown, for an issue or a paper's appendix, and its main numbers as CSV (RFC 4180)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from palate.records import printable
from palate.report._document import Cell, Columns, Document, Note, Section
from palate.report._table import Table, markdown_table, one_line, safe_markdown

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def document_markdown(document: Document) -> str:
    """Findings, then every section, with tables that any Markdown reader takes."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {safe_markdown(document.name)}: {safe_markdown(document.title)}"
    facts = "".join(f"; {name.lower()} {fact}" for name, fact in document.facts.items())
    yield from ("", safe_markdown(f"{document.size}{facts}."))
    if document.lead:
        yield from ("", safe_markdown(document.lead))
    if document.unfinished:
        yield from ("", f"> **Warning:** {safe_markdown(document.unfinished)}")
    if document.findings:
        yield ""
    yield from (f"- **{finding.severity}**: {safe_markdown(finding.sentence)}" for finding in document.findings)
    for section in document.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    shown = [block for block in section.blocks if isinstance(block, Table | Note)]
    if not shown:
        return
    yield from ("", f"## {safe_markdown(section.title)}")
    if section.lead:
        yield from ("", safe_markdown(section.lead))
    for block in shown:
        if isinstance(block, Note):
            yield from ("", safe_markdown(block.text))
            continue
        if block.title and block.title != section.title:
            yield from ("", f"### {safe_markdown(block.title)}")
        yield from ("", *markdown_table(block))
        if block.note:
            yield from ("", safe_markdown(block.note))
    for line in section.small_print:
        yield from ("", safe_markdown(line))


def document_csv(document: Document) -> str:
    """Full precision where the document has it, else the tables of its first section one after the other."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    if document.columns is not None:
        writer.writerow(document.columns.names)
        writer.writerows([_inert(cell) for cell in row] for row in document.columns.rows)
        return text.getvalue()
    before: tuple[str, ...] = ()
    for table in _first_tables(document):
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


def document_columns(document: Document) -> Columns:
    """The rows of results.csv. Where a document has no columns: its first table, and those with the same titles."""
    if document.columns is not None:
        return document.columns
    tables = _first_tables(document)
    if not tables:
        return Columns(names=[], rows=[])
    first = tables[0]
    return Columns(
        names=("table", *first.flat_titles),
        rows=[
            (table.title, *row[: table.words], *map(one_line, row[table.words :]))
            for table in tables
            if table.titles == first.titles
            for row in table.rows
        ],
    )


def _first_tables(document: Document) -> list[Table]:
    return [block for section in document.sections[:1] for block in section.blocks if isinstance(block, Table)]


def _inert(cell: Cell) -> Cell:
    """A name that a spreadsheet takes for text: an apostrophe goes before what would start a formula."""
    if not isinstance(cell, str):
        return cell
    shown = printable(cell, keep="")
    return "'" + shown if cell.lstrip(" ").startswith(_FORMULA_STARTS) else shown
