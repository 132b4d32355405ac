"""Sentences in a terminal: broken between words, and never within a command, so that it can be copied."""

from __future__ import annotations

import os
import re
from typing import TextIO

from palate.cli._examples import EXAMPLES

_COMMAND = rf"(?:palate (?:{'|'.join(dict.fromkeys(name.split()[0] for name in EXAMPLES))})|pip install|python -c)\b"
_PIECE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"'])+"""
_UNIT = re.compile(rf"(`[^`\n]+`\S*|{_COMMAND}(?:{_PIECE})?(?:(?<![.,;:)`]) {_PIECE})*|\S+)(\s*)")
"""A word, or what is to be copied whole: between backticks, or a command up to the end of its clause; and the space."""


def in_lines(text: str, stream: TextIO) -> str:
    """The text as `stream` shows it best: as wide as the terminal that it is, as it stands where it is none."""
    try:
        return wrapped(text, os.get_terminal_size(stream.fileno()).columns) if stream.isatty() else text
    except (OSError, ValueError):  # no file behind it, or one that is closed
        return text


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most so many characters, but for a word or a command that is longer.

    >>> print(wrapped("no such run; to list yours: palate runs my/own/runs", 24))
    no such run; to list
    yours:
    palate runs my/own/runs
    """
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        row = gap = ""
        for unit, space in _UNIT.findall(line):
            if row and len(indent + row + gap + unit) > width:
                lines.append(indent + row)
                row = unit
            else:
                row += gap + unit
            gap = space
        lines.append((indent + row).rstrip())
    return "\n".join(lines)
