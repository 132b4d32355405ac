"""A document as Markdown, for an issue, a pull request or a paper's appendix."""

from __future__ import annotations

from collections.abc import Iterator

from palate.report._document import Document, Note, Section
from palate.report._table import Table, markdown_table, safe_markdown


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
