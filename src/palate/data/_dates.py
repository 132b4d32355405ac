"""Dates as people write them, in the one form that can be compared as text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

_SHAPE = re.compile(
    r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?)?)?", re.ASCII
)


def normalise_date(text: str) -> str:
    """An ISO 8601 date at the precision it came in, in UTC without a suffix; ValueError for anything else.

    >>> normalise_date("2023-05")
    '2023-05'
    >>> normalise_date("2023-05-14T20:11+02:00")
    '2023-05-14T18:11:00'
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    year, month, day, clock, offset = match.groups()
    date(int(year), int(month or 1), int(day or 1))
    if clock is None:
        return "-".join(part for part in (year, month, day) if part)
    moment = datetime.fromisoformat(f"{year}-{month}-{day}T{_six_digits(clock)}{offset or ''}")
    return write_moment(moment if moment.tzinfo is None else moment.astimezone(UTC))


def write_moment(moment: datetime) -> str:
    """One moment as text, no more precise than it is."""
    fraction = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    precision = fraction if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision)


def _six_digits(clock: str) -> str:
    seconds, dot, fraction = clock.partition(".")
    return f"{seconds}.{fraction[:6]:0<6}" if dot else seconds
