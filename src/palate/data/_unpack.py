"""Unpacking gzip up to a limit: three megabytes can hold three gigabytes of nothing."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

from palate.records import PalateError

VARIABLE = "PALATE_MAX_UNPACKED_MB"
ALWAYS = 256
"""Megabytes that any file may unpack to."""
RATIO = 50
"""A larger file may unpack to this multiple of its size; text rarely exceeds 20."""
MEGABYTE = 10**6


def unpack(data: bytes, file: Path) -> bytes:
    """The content of a gzip file, refused where it is larger than such a file should hold.

    Raises what `gzip` raises where the data is damaged.
    """
    limit = unpacked_limit(len(data))
    content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(limit + 1)
    if len(content) > limit:
        raise too_large(file, limit)
    return content


def unpacked_limit(packed: int) -> int:
    """The most bytes that a file of this size may unpack to."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return max(ALWAYS * MEGABYTE, RATIO * packed)
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise PalateError(f"{VARIABLE}={text}: expected a whole number of megabytes from 1")
    return int(text) * MEGABYTE


def too_large(file: Path, limit: int) -> PalateError:
    """What was refused, and how to allow it."""
    return PalateError(
        f"{file}: unpacks to more than {limit // MEGABYTE:,} MB, as files do that are made to fill the memory. "
        f"If you trust it, set {VARIABLE} to the megabytes it may take."
    )
