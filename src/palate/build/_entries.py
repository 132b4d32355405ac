"""What every source is read as: questions, answers and other posts, one at a time.

A source pushes entries to a function, since a 7z archive can only be unpacked that way; nothing holds a whole file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Protocol

import msgspec

BLOCKS = frozenset("p div br li ul ol pre blockquote h1 h2 h3 h4 h5 h6 hr table tr".split())


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One post: a question where it has no parent, else an answer to its parent."""

    id: str
    parent: str | None = None
    user: str | None = None
    date: str | None = None
    """In the one form of palate's dates, so that text order is the order of time."""
    score: int | None = None
    accepted_answer: str | None = None
    """Of a question: the id of the answer that the asker accepted."""
    accepted: bool = False
    """Of an answer, where the source says it there."""
    title: str = ""
    body: str = ""
    html: bool = False
    category: str | None = None

    @property
    def text(self) -> str:
        """The body without markup."""
        return plain_text(self.body) if self.html else self.body.strip()


Take = Callable[[Entry], None]
Progress = Callable[[int, int], None]
"""Told how many bytes of the source are read, and how many there are."""


class Source(Protocol):
    """Something that histories can be read from, twice or more."""

    licence: str
    where: str
    """How cards name it."""

    @property
    def fingerprint(self) -> str:
        """Changes with the data."""

    def read(self, take: Take, left_out: Counter[str], progress: Progress) -> None:
        """Push every entry; what cannot be used is counted by its reason."""

    def link(self, kind: str, id: str) -> str:
        """Where the public page of a `question` or `user` is; empty where there is none."""


_UNCLOSED = re.compile(r"<(?!/?[A-Za-z][^<>]*>)")
"""What opens no tag. The parser would search the rest of the page for its end, again for each of them."""


def _without_comments(html: str) -> str:
    before, *pieces = html.split("<!--")
    return before + "".join(piece.partition("-->")[2] if "-->" in piece else piece for piece in pieces)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "pre":
            self._code += 1
        if tag in BLOCKS:
            self.pieces.append("\n" if tag in ("br", "li", "tr") else "\n\n")
        if tag == "li":
            self.pieces.append("- ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._code = max(0, self._code - 1)
        if tag in BLOCKS and tag != "li":
            self.pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        self.pieces.append(data if self._code else " ".join(data.replace("\n", " ").split(" ")))


def plain_text(html: str) -> str:
    """The words of a page's body, paragraphs apart and list items on lines of their own.

    >>> plain_text("<!-- 1 --><p>if a < b</p>")
    'if a < b'
    >>> plain_text("<p>Use <b>hot</b> water.</p>\\n<ul><li>91 &deg;C</li><li>no more</li></ul>")
    'Use hot water.\\n\\n- 91 °C\\n- no more'
    """
    parser = _Text()
    parser.feed(_UNCLOSED.sub("&lt;", _without_comments(html)))
    parser.close()
    lines = (line.rstrip() for line in "".join(parser.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
