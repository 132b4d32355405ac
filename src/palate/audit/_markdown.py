"""The audit as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from palate.audit._document import Document, Section
from palate.report import markdown_table, safe_markdown


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
        yield from markdown_table(section.table)
    for note in section.notes:
        yield from ("", safe_markdown(note))
