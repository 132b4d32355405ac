"""A 7z archive as a stream: py7zr writes what it unpacks to an object, and this one passes it on."""

from __future__ import annotations

from collections.abc import Callable

from py7zr.io import Py7zIO, WriterFactory

from palate.build._entries import Progress
from palate.records import PalateError


class Feed(Py7zIO, WriterFactory):
    """Passes unpacked bytes to a function and keeps none; refuses more of them than allowed."""

    def __init__(
        self, feed: Callable[[bytes], None], total: int, progress: Progress, most: int, too_large: PalateError
    ) -> None:
        self._feed, self._total, self._progress, self._most, self._too_large = feed, total, progress, most, too_large
        self._size = 0

    def create(self, filename: str) -> Py7zIO:
        """Only one member is asked for."""
        return self

    def write(self, s: bytes | bytearray) -> int:
        """The next piece."""
        self._size += len(s)
        if self._size > self._most:  # the header may have said less
            raise self._too_large
        self._feed(bytes(s))
        self._progress(self._size, self._total)
        return len(s)

    def read(self, size: int | None = None) -> bytes:
        """Nothing is kept."""
        return b""

    def seek(self, offset: int, whence: int = 0) -> int:
        """Nothing to go back to."""
        return 0

    def flush(self) -> None:
        """Nothing waits."""

    def size(self) -> int:
        """How much has come."""
        return self._size
