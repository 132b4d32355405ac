"""What is wrong with a file, said so that a person can mend it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from palate.records import PalateError


class Place(msgspec.Struct, frozen=True):
    """Where a record stands: a file and, where it has lines, the line."""

    file: str
    line: int | None = None


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing wrong with a benchmark: an error makes it unusable, a warning makes it mislead.

    >>> print(Fault("error", "users.jsonl", 3, "posts[0].date", "'soon' is not a date"))
    users.jsonl:3: field 'posts[0].date': 'soon' is not a date
    """

    severity: Literal["error", "warning"]
    file: str
    line: int | None
    field: str | None
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        field = f"field {self.field!r}: " if self.field else ""
        return f"{where}: {field}{self.message}"


class FieldError(Exception):
    """A value of the right type that makes no sense; the reader adds the place and goes on."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def error(place: Place, field: str | None, message: str) -> Fault:
    """A fault that makes the data unusable."""
    return Fault("error", place.file, place.line, field, message)


def warning(place: Place, field: str | None, message: str) -> Fault:
    """A fault that makes the data mislead."""
    return Fault("warning", place.file, place.line, field, message)


def gathered(found: Iterable[tuple[str, Place]], field: str | None, message: str) -> Iterator[Fault]:
    """One warning for all records with the same fault, at the place of the first."""
    found = list(found)
    if found:
        id, place = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield warning(place, field, f"{id!r}{more}: {message}")


def refuse(faults: list[Fault], source: str) -> None:
    """Raise the first error, and say how many more there are and which command lists them."""
    errors = [fault for fault in faults if fault.severity == "error"]
    if not errors:
        return
    more = len(errors) - 1
    counted = f"... and {more} more fault{'s' if more > 1 else ''}; " if more else ""
    advice = f"{counted}`palate data check {source}` lists {'them all' if more else 'what is wrong'}"
    raise PalateError(f"{errors[0]}\n{advice}")


def explain(problem: Exception, place: Place) -> Fault:
    """Put what the decoder says into words that name the field."""
    if isinstance(problem, FieldError):
        return error(place, problem.field, problem.message)
    if isinstance(problem, UnicodeDecodeError):
        return error(place, None, "not UTF-8 text; save the file as UTF-8")
    if isinstance(problem, RecursionError):
        return error(place, None, "nested too deeply; a record is an object of plain fields")
    text = str(problem)
    if not isinstance(problem, msgspec.ValidationError):
        return error(place, None, f"broken JSON ({text}); each record is one complete JSON object")
    message, _, path = text.partition(" - at ")
    field = re.sub(r"\[\.\.\.\]", "", path.strip("`").removeprefix("$").removeprefix(".")) or None
    if missing := re.search(r"missing required field `(.+)`", message):
        name = f"{field}.{missing[1]}" if field else missing[1]
        return error(place, name, "is missing; add it")
    return error(place, field, _in_words(message))


_NAMES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _in_words(message: str) -> str:
    def name(match: re.Match[str]) -> str:
        words = [_NAMES.get(kind, kind) for kind in match[1].split(" | ")]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    said = re.sub(r"`([^`]+)`", name, message)
    return said[:1].lower() + said[1:] + "; `palate data schema` shows what each field takes"
