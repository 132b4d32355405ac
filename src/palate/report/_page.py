"""A document as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palate.report._document import Document, Finding, ItemCard, ItemRating, as_sentence
from palate.report._numbers import count, figure
from palate.report._table import Table

_FOLDER = Path(__file__).parent


def document_page(document: Document) -> str:
    """The page as text."""
    style, theme, script = page_asset("page.css"), page_asset("theme.js"), page_asset("page.js")
    page = (
        page_templates()
        .get_template("page.html.j2")
        .render(
            document=document,
            warnings=[finding for finding in document.findings if finding.severity == "warning" and not finding.about],
            readings=list(_readings(document.findings)),
            policy=_content_policy(style, theme, script),
            style=Markup(style),
            theme=Markup(theme),
            script=Markup(script),
            data=Markup(embedded_json(document.items)),
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")


def document_fragment(document: Document) -> str:
    """What a terminal shows, as HTML for the cell of a notebook: no script, no style, no single user."""
    shown = [section for section in document.sections if section.terminal]
    tables = [
        msgspec.structs.replace(block, bars=())
        for section in shown
        for block in section.blocks
        if isinstance(block, Table)
    ]
    return page_templates().get_template("notebook.html.j2").render(document=document, tables=tables)


def _readings(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    """What is said of each model, under its name; what is said of none, under no name."""
    shown = [finding for finding in findings if finding.about or finding.severity != "warning"]
    for about, own in groupby(shown, key=lambda finding: finding.about):
        yield about, list(own)


def embedded_json(items: Sequence[ItemCard]) -> str:
    """The items as JSON that is safe inside a script element; each text is kept once.

    >>> embedded_json([])
    '{"texts":[],"items":[]}'
    """
    texts: dict[str, int] = {}

    def kept(text: str) -> int:
        return texts.setdefault(text, len(texts))

    packed = [
        {
            "id": item.id,
            "user": item.user,
            "facts": dict(item.facts),
            "prompt": kept(item.prompt),
            "texts": [
                {
                    "label": text.label,
                    "text": kept(text.text),
                    "tags": list(text.tags),
                    "highlighted": text.highlighted,
                    "numbers": {
                        name: f"{number:,}" if isinstance(number, int) else figure(number)
                        for name, number in text.numbers.items()
                    },
                }
                for text in item.texts
            ],
            "profiles": {view: kept(text) for view, text in item.profiles.items()},
            "ratings": [_packed(rating) for rating in item.ratings],
        }
        for item in items
    ]
    text = json.dumps({"texts": list(texts), "items": packed}, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _packed(rating: ItemRating) -> dict[str, object]:
    """A rating without its empty fields; a score that is no finite number becomes null."""
    fields = msgspec.structs.asdict(rating)
    if rating.scores is not None:
        fields["scores"] = [score if score is not None and math.isfinite(score) else None for score in rating.scores]
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _content_policy(style: str, *scripts: str) -> str:
    """A content security policy that lets nothing in but the page's own style and scripts."""
    allowed = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def page_asset(name: str) -> str:
    """A style or script that a page carries inside itself: `page.css`, `theme.js` or `page.js`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def page_templates(*folders: Path) -> Environment:
    """Where templates find each other: those of the report, and those of further folders."""
    environment = Environment(
        loader=FileSystemLoader([*folders, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["count"] = count
    environment.filters["sentence"] = as_sentence
    environment.filters["capitalised"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["is_a"] = lambda block, kind: type(block).__name__ == kind
    return environment
