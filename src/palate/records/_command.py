"""The command line that is being run, so that what it makes can say how to make it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

_LINE: ContextVar[str] = ContextVar("line", default="")
_NOT_A_NAME = re.compile(r"\b(key)=(?![A-Z_][A-Z0-9_]*(?:,|$))[^,]*")
"""What stands where the name of an environment variable belongs may be the key itself."""
_WHERE = ("--shard", "--cluster", "--workers", "--at-once")
"""Options that say where a run is measured. It is the same run anywhere."""


@contextmanager
def running_command(line: str) -> Iterator[None]:
    """What is made inside was made by this command line."""
    token = _LINE.set(line)
    try:
        yield
    finally:
        _LINE.reset(token)


def current_command() -> str:
    """The command line that is being run; empty in a program that uses palate as a library."""
    return _LINE.get()


def command_line(words: Sequence[str]) -> str:
    """The words as a shell takes them, without keys and without where it was run.

    >>> command_line(["eval", "ma cuisine", "--rm", "judge:m,key=sk-123", "--shard", "1/8"])
    "palate eval 'ma cuisine' --rm judge:m,key=..."
    """
    kept = [
        word for before, word in pairwise(["", *words]) if before not in _WHERE and word.partition("=")[0] not in _WHERE
    ]
    return shlex.join(["palate", *(_NOT_A_NAME.sub(r"\1=...", word) for word in kept)])
