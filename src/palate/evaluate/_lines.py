"""Files that grow by whole lines of JSON and survive a crash at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from palate.records import PalateError

try:
    import fcntl
except ImportError:  # Windows has no flock; two writers at once are then not noticed
    fcntl = None  # type: ignore[assignment]

Line = TypeVar("Line")


def read_lines(file: Path, line: type[Line]) -> Iterator[Line]:
    """Every whole and sound line; a torn one is passed over, as if it had never been begun."""
    decoder = msgspec.json.Decoder(line)
    try:
        with file.open("rb") as stream:
            for raw in stream:
                if not raw.endswith(b"\n"):
                    return
                try:
                    yield decoder.decode(raw)
                except msgspec.DecodeError:
                    continue
    except FileNotFoundError:
        return
    except OSError as error:
        raise PalateError(f"cannot read {file}: {error.strerror or error}") from error


class Appender:
    """Adds whole lines to a file, on the disk before `append` returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            if fcntl:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PalateError(f"another process is writing to {file.parent}; wait for it, or stop it") from error
        except OSError as error:
            raise PalateError(
                f"cannot write to {file}: {error.strerror or error}. Choose another place with --out."
            ) from error
        self._drop_torn_line()

    def append(self, lines: Sequence[object]) -> None:
        """Write the lines in one piece and wait for the disk."""
        if not lines:
            return
        content = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        try:
            while content:
                content = content[os.write(self._descriptor, content) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self._drop_torn_line()
            raise PalateError(
                f"cannot write to {self._file}: {error.strerror or error}. What was rated before is kept; "
                "make room and run the same command again."
            ) from error

    def close(self) -> None:
        """Let another process write."""
        os.close(self._descriptor)

    def _drop_torn_line(self) -> None:
        """Cut the file after its last line end, so that the next line starts on its own."""
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        position = end
        while position > 0:
            start = max(0, position - 65_536)
            os.lseek(self._descriptor, start, os.SEEK_SET)
            newline = os.read(self._descriptor, position - start).rfind(b"\n")
            if newline >= 0:
                position = start + newline + 1
                break
            position = start
        if position < end:
            os.ftruncate(self._descriptor, position)
