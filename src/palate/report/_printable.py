"""Text from anywhere that is safe to print."""

from __future__ import annotations

import unicodedata

from rich.console import Console
from rich.text import Text

from palate.report._numbers import MINUS

_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def printable(text: str, console: Console, style: str = "") -> Text:
    """Text that cannot move the cursor, colour anything or fail to be written."""
    kept = "".join("\ufffd" if _unprintable(character) else character for character in text)
    kept = kept.replace(MINUS, "-")
    encoding = console.encoding or "utf-8"
    if encoding.lower().replace("-", "") != "utf8":
        kept = kept.replace("–", "-").encode(encoding, "replace").decode(encoding)
    return Text(kept, style=style)


def _unprintable(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs"} or character in _BIDIRECTIONAL
