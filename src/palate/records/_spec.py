"""The small language in which people name models, benchmarks and their options."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from palate.records._errors import PalateError

NOT_FINITE = ("inf", "infinity", "nan")
"""What Python reads as a number that no option means: it would pass every check for being large enough."""


class Spec(msgspec.Struct, frozen=True):
    """A name with an optional argument and options: `name:argument,key=value,key=value`.

    >>> parse_spec("embedding:judgements,encoder=minilm")
    Spec(name='embedding', argument='judgements', options={'encoder': 'minilm'})
    """

    name: str
    argument: str | None = None
    options: dict[str, str] = {}


def parse_spec(text: str) -> Spec:
    """Read `name`, `name:argument`, `name:argument,key=value` or `name,key=value`."""
    head, *rest = text.split(",")
    name, colon, argument = head.partition(":")
    if not name.strip() or (colon and not argument):
        raise PalateError(f"cannot read {text!r}: write NAME, NAME:ARGUMENT or NAME:ARGUMENT,key=value")
    options: dict[str, str] = {}
    for piece in rest:
        key, equals, value = piece.partition("=")
        if not equals or not key.strip():
            raise PalateError(f"cannot read {piece!r} in {text!r}: options are written key=value")
        if key.strip() in options:
            raise PalateError(f"option {key.strip()!r} is given twice in {text!r}")
        if value.strip().lower().lstrip("+-") in NOT_FINITE:
            raise PalateError(f"option {key.strip()}={value} in {text!r}: expected a finite number")
        options[key.strip()] = value
    return Spec(name.strip(), argument if colon else None, options)


def unknown_name(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> PalateError:
    """The error for a name nobody registered, with the nearest ones.

    >>> print(unknown_name("view", "post:3", ["posts", "none"]))
    unknown view 'post:3'. Did you mean 'posts'? Known: none, posts.
    """
    known = sorted(known)
    return PalateError(
        f"unknown {kind} {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}. {hint}".rstrip()
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest name as a question, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.65)
    return f" Did you mean {near[0]!r}?" if near else ""
