"""Texts of people and models as they may be shown: plain, or Markdown without anything live in it."""

from __future__ import annotations

import html
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt

_TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "table", "thead", "tbody",
    "tr", "th", "td", "h3", "h4", "h5", "h6", "a",
}  # fmt: skip
"""No image among them: loading one would tell another host who reads what, and when."""
LONGEST_MARKDOWN = 20_000
"""Characters. The time for brackets that nothing closes grows with their square, and nobody else is answered."""


def show(text: str, *, markdown: bool) -> str:
    """HTML that is safe in a page, whatever the text holds.

    >>> show("**Four**, <script>alert(1)</script>", markdown=True)
    '<p><strong>Four</strong>, &lt;script&gt;alert(1)&lt;/script&gt;</p>\\n'
    >>> show("<b>5</b>", markdown=False)
    '<p class="plain">&lt;b&gt;5&lt;/b&gt;</p>'
    """
    formatted = markdown and len(text) <= LONGEST_MARKDOWN
    return _markdown(text) if formatted else f'<p class="plain">{html.escape(text)}</p>'


@lru_cache(maxsize=4096)
def _markdown(text: str) -> str:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(text)
    for token in tokens:  # the page has its own first and second level
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    return nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
