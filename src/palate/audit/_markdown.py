"""The audit as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.audit._document import Document, Section, Table
from palate.evaluate import safe_markdown


def markdown_document(document: Document) -> str:
    """Verdict, sections and footnote, with tables that any Markdown reader takes."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {safe_markdown(document.title)}"
    yield from ("", safe_markdown(document.size), "", "## Verdict", "")
    for finding in document.findings:
        advice = f" *{safe_markdown(finding.advice)}*" if finding.advice else ""
        yield f"- **{finding.severity}**: {safe_markdown(finding.text)}{advice}"
    for section in document.sections:
        yield from _section(section)
    yield from ("", safe_markdown(document.footnote))


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"## {safe_markdown(section.title)}")
    if section.table:
        yield ""
        yield from _table(section.table)
    for note in section.notes:
        yield from ("", safe_markdown(note))


def _table(table: Table) -> Iterator[str]:
    yield _line(table.titles)
    yield _line(["---" if position < table.words else "---:" for position in range(len(table.titles))])
    for row in table.rows:
        words = [safe_markdown(cell) for cell in row[: table.words]]
        yield _line([*words, *(cell.replace("<", "&lt;") for cell in row[table.words :])])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
