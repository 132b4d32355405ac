"""Other people's text in a terminal, a table, a log or an error: it may not move the cursor, colour or reorder."""

import re

REPLACEMENT = "\ufffd"
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, escape sequences among them
    "\ud800-\udfff"  # halves of characters, which cannot be written
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029]"  # other line ends
)


_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2})?/(?:[^/\s,()]+/)*([^/\s,()]+)")


def printable(text: str, keep: str = "\n\t") -> str:
    r"""The text with a replacement character for everything that a terminal or an editor would obey, not show.

    >>> printable("ann\x1b[2J\u202e")
    'ann�[2J�'
    """
    return _HARMFUL.sub(lambda found: found[0] if found[0] in keep else REPLACEMENT, text)


def escaped_json(text: str) -> str:
    r"""JSON with the same characters written as escapes: it reads back as the same value.

    >>> escaped_json('{"id": "\x9b2J"}')
    '{"id": "\\u009b2J"}'
    """
    return _HARMFUL.sub(lambda found: found[0] if found[0] in "\n\t" else f"\\u{ord(found[0]):04x}", text)


def without_folders(text: str) -> str:
    """A name without the folders of a path in it, which are nobody else's business.

    >>> without_folders("personal:/home/ann/models/per-user"), without_folders("hf:org/name")
    ('personal:per-user', 'hf:org/name')
    """
    return _PATH.sub(r"\1", text)
