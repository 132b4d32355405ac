"""Files of JSON Lines, rewritten with some lines changed or left out: each file whole, or as it was."""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from palate.data import unpack
from palate.records import PalateError
from palate.runs import bad_line, fault_of

Row = dict[str, object]
Change = Callable[[Row], Row | None]
"""A row as it shall stand, itself where nothing changes, or nothing where it goes."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was rewritten or removed."""

    path: str
    before: str | None
    """SHA-256; null where the file was not there."""
    after: str | None


def sha256(file: Path) -> str | None:
    """The hash of a file's content."""
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def mentions(names: Iterable[str]) -> Callable[[bytes], bool]:
    """Whether a line of JSON may hold one of the names: a quick look that finds too much, and never too little.

    >>> [mentions(["ann/1"])(line) for line in (b'{"a": "ann/1"}', b'{"a": "bob"}', b'{"a": "ann\\\\/1"}')]
    [True, False, True]
    """
    written = (json.dumps(name, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass") for name in names)
    # A letter or a slash may be escaped; such a line has to be read.
    look = re.compile(b"|".join([rb"\\[u/]", *map(re.escape, written)])).search
    return lambda line: look(line) is not None


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, or none where there is no file; a torn last line is passed over.

    Raises PalateError with file and line number where another line cannot be read: it may be anybody's.
    """
    return list(each_row(file))


def each_row(file: Path) -> Iterator[Row]:
    """The same, one at a time: a ledger may have millions."""
    yield from (row for _, row in _rows(file) if row is not None) if file.is_file() else ()


def rewrite(file: Path, change: Change, *, write: bool, keep_empty: bool = False) -> FileChange | None:
    """Put every row through `change`; rows that stay as they are stay byte for byte. None where nothing changed."""
    if not file.is_file():
        return None
    changed, empty = False, True

    def lines() -> Iterator[bytes]:
        nonlocal changed, empty
        for line, row in _rows(file):
            new = None if row is None else change(row)
            if new is not row or row is None:
                changed |= bool(line.strip())
                line = b"" if new is None else msgspec.json.encode(new)
            if new is not None:
                empty = False
                yield line + b"\n"

    with _draft(file, lines()) if write else nullcontext() as draft:
        if draft is None:
            for _ in lines():
                pass
        if not changed:
            return None
        before = sha256(file)
        if draft is not None and empty and not keep_empty:
            file.unlink()
        elif draft is not None:
            draft.replace(file)
    return FileChange(path=str(file), before=before, after=sha256(file))


def replace(file: Path, content: bytes) -> None:
    """Write a file so that the old one stands until the new one is on the disk; permissions stay."""
    with _draft(file, [content]) as draft:
        draft.replace(file)


@contextmanager
def _draft(file: Path, content: Iterable[bytes]) -> Iterator[Path]:
    """What a file shall hold, on the disk beside it; what has not taken its place at the end is removed."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            if file.suffix == ".gz":
                stream.write(gzip.compress(b"".join(content), mtime=0))
            else:
                stream.writelines(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(file.stat().st_mode & 0o777)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(folder: Path, names: Iterable[str]) -> None:
    """What a process that was killed had not renamed yet: nobody will, and it may hold anybody's texts."""
    for name in names:
        for draft in folder.glob(f".{glob.escape(name)}.*"):
            draft.unlink()


def _lines(file: Path) -> Iterator[bytes]:
    if file.suffix == ".gz":
        yield from unpack(file.read_bytes(), file).splitlines()
        return
    with file.open("rb") as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def _rows(file: Path) -> Iterator[tuple[bytes, Row | None]]:
    """Every line with what it says; a torn last one says nothing."""
    lines = _lines(file)
    line = next(lines, None)
    number = 0
    while line is not None:
        following, number, row = next(lines, None), number + 1, None
        try:
            row = msgspec.json.decode(line, type=Row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if following is not None:
                raise bad_line(file, number, fault_of(line, error)) from error
        yield line, row
        line = following


def dropped_lines(folder: Path) -> dict[Path, int]:
    """Files of lines that a repair dropped, with how many of them are still to be read there."""
    files = (file for file in sorted(folder.glob("*.jsonl.bad")) if file.is_file())
    return {file: sum(map(bool, file.read_bytes().splitlines())) for file in files}


def refuse_read_only(folder: Path) -> None:
    """Say so before anything is erased anywhere, not half-way."""
    if not os.access(folder, os.W_OK):
        raise PalateError(f"{folder} cannot be written, so nothing can be erased there; nothing was erased anywhere")
