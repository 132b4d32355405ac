"""Files that grow by whole lines of JSON and survive a crash at any moment.

Only the last line of such a file may be torn, since a crash stops a process while it appends. It is dropped and made
again. Any other line that cannot be read is damage, and is never passed over in silence.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from palate.data import Digests, Lines, OnDisk, digest_of
from palate.records import PalateError, new_file

try:
    import fcntl
except ImportError:  # Windows has no flock; two writers at once are then not noticed
    fcntl = None  # type: ignore[assignment]

MOST_HELD = 2**24
"""Bytes of a file whose records are held in memory."""
Line = TypeVar("Line")
Key = Callable[[Line], Hashable]
"""What a line is known by."""


class Keys:
    """A set of keys that takes a fiftieth of a gigabyte a million: of each it keeps bytes that stand for it.

    With `column`, keys are tuples, of which few differ elsewhere than at that place. Of what stands there bytes are
    kept, which several sets may share, and of each key a bit.

    >>> keys = Keys([("embedding", "none", "q1")])
    >>> ("embedding", "none", "q1") in keys, ("embedding", "none", "q2") in keys, len(keys)
    (True, False, 1)
    >>> ("guided", 5) in Keys([("guided", 5.0)])
    True
    >>> keys = Keys([("embedding", "q1"), ("longest", "q2")], column=1)
    >>> ("longest", "q2") in keys, ("longest", "q1") in keys, len(keys)
    (True, False, 2)
    """

    def __init__(
        self, keys: Iterable[Hashable] = (), *, column: int | None = None, digests: Digests | None = None
    ) -> None:
        self._column = column
        self._digests = Digests() if digests is None else digests
        self._rows: dict[Hashable, bytearray] = {}
        """A bit for each number of the digests, by what stands in the other columns."""
        self._count = 0
        self.update(keys)

    def __contains__(self, key: Hashable) -> bool:
        return self._count > 0 and self._has(self._token(key))

    def __len__(self) -> int:
        return self._count

    def add(self, key: Hashable) -> bool:
        """Take a key; whether it is new."""
        return self._take(self._token(key))

    def update(self, keys: Iterable[Hashable]) -> None:
        """Take several keys."""
        for key in keys:
            self.add(key)

    def new(self, lines: Mapping[Hashable, Line]) -> dict[Token, Line]:
        """Of lines by their keys those that are not here, by what `take` takes once they are."""
        return {token: line for key, line in lines.items() if not self._has(token := self._token(key))}

    def take(self, tokens: Iterable[Token]) -> None:
        """Take what `new` told."""
        for token in tokens:
            self._take(token)

    def without(self, others: Keys) -> int:
        """How many of the keys the others do not hold, which share their digests where they have a column."""
        if self._column is None:
            return sum(others._digests.number(digest) is None for digest in self._digests)
        assert self._digests is others._digests
        lost = 0
        for rest, row in self._rows.items():
            there = others._rows.get(rest, b"")[: len(row)]
            own = np.frombuffer(row, np.uint8)
            missing = own & ~np.frombuffer(there.ljust(len(row), b"\0"), np.uint8)
            lost += int(np.unpackbits(missing).sum())
        return lost

    def _token(self, key: Hashable) -> Token:
        if self._column is None:
            return None, _digest(key)
        assert isinstance(key, tuple)
        return key[: self._column] + key[self._column + 1 :], _digest(key[self._column])

    def _has(self, token: Token) -> bool:
        rest, digest = token
        number = self._digests.number(digest)
        if number is None or self._column is None:
            return number is not None
        row = self._rows.get(rest, b"")
        return number >> 3 < len(row) and bool(row[number >> 3] & 1 << (number & 7))

    def _take(self, token: Token) -> bool:
        rest, digest = token
        before = len(self._digests)
        number = self._digests.add(digest)
        new = number == before
        if self._column is not None:
            row = self._rows.setdefault(rest, bytearray())
            if number >> 3 >= len(row):
                row.extend(bytes((number >> 3) + 1 - len(row) + len(row) // 8))
            new = not row[number >> 3] & 1 << (number & 7)
            row[number >> 3] |= 1 << (number & 7)
        self._count += new
        return new


Token = tuple[Hashable, bytes]
"""What a set knows of a key."""
_ENCODER = msgspec.msgpack.Encoder()


def _digest(key: Hashable) -> bytes:
    return digest_of(_ENCODER.encode(_plain(key)))


def _plain(key: Hashable) -> Hashable:
    """The same for keys that are equal, such as those with 5 and 5.0."""
    if isinstance(key, tuple):
        return tuple([part if type(part) in (str, int) else _plain(part) for part in key])
    return int(key) if isinstance(key, bool) or (isinstance(key, float) and key.is_integer()) else key


class Needs(NamedTuple):
    """Lines of another ledger that a line was made from."""

    ledger: Ledger[Any]
    keys: Callable[[Any], Iterable[Hashable]]


About = Literal["item", "items", "views", "parts", "nobody"]


class Ledger(Generic[Line]):
    """A file of a run folder that grows by lines of one type. Lines with the same key say the same, or are damaged.

    `about` says whose the lines are, so that a person can be erased, exported and hidden whatever kind of run it is:

    - `item` (the default): each line is about the item that its field `item` names, and so is its user's
    - `items`: each line is an item, with `id` and `user_id`
    - `views`: each line tells whose profile (`user_id`) was shown with an `item`, and who lent to it (`neighbours`)
    - `parts`: texts of profiles, by `key`; they go with the last view that shows them
    - `nobody`: nothing in it is anybody's
    """

    def __init__(
        self,
        name: str,
        line: type[Line],
        key: Key[Line] | None = None,
        needs: Needs | None = None,
        *,
        about: About = "item",
        label: str = "",
        column: int | None = None,
    ) -> None:
        self.name, self.line, self.key, self.needs, self.about = name, line, key, needs, about
        self.column = column
        """Where in a key the item stands: of large ledgers, so that of a key little is held."""
        self.label = label or name.partition(".")[0].replace("_", " ")
        """What a receipt calls the lines."""
        lacking = [field for field in _FIELDS[about] if field not in line.__struct_fields__]  # type: ignore[attr-defined]
        if lacking:
            raise TypeError(
                f"{line.__name__} has no field {lacking[0]!r}, so nobody can tell whose the lines of {name} are: add "
                'it, or say about="nobody" where they are nobody\'s'
            )

    def read(self, folder: Path, keys: Keys | None = None) -> Iterator[Line]:
        """Every line, each key once; `keys` takes the keys."""
        return read_lines(folder / self.name, self.line, self.key, self.no_keys() if keys is None else keys)

    def records(self, folder: Path) -> Sequence[Line]:
        """The same as a sequence, which leaves a large file on the disk."""
        file = folder / self.name
        if not file.is_file() or file.stat().st_size <= MOST_HELD:
            return list(self.read(folder))
        lines, places = Lines(file), array("I")
        for found in scan_lines(file, self.line, self.key, self.no_keys()):
            if found.line is None:
                raise bad_line(file, found.number, found.fault)
            if found.start > lines.end:  # a line that repeats an earlier one
                lines.skip(found.start - lines.end)
            places.append(len(lines))
            lines.skip(len(found.raw))
        decode = msgspec.json.Decoder(self.line).decode
        return OnDisk(lines, decode, None if len(places) == len(lines) else places)

    def no_keys(self, items: Digests | None = None) -> Keys:
        """An empty set of keys of this ledger; sets may share what they know of items."""
        return Keys() if self.column is None else Keys(column=self.column, digests=items)

    def keys(self, folder: Path) -> Keys:
        """The keys of all lines."""
        assert self.key is not None
        keys = self.no_keys()
        for _ in self.read(folder, keys):
            pass
        return keys


_FIELDS: dict[About, tuple[str, ...]] = {
    "item": ("item",),
    "items": ("id", "user_id"),
    "views": ("item", "user_id", "parts", "neighbours"),
    "parts": ("key", "text"),
    "nobody": (),
}


class Scanned(NamedTuple, Generic[Line]):
    """A line as it stands in a file: decoded, or with what is wrong with it."""

    number: int
    raw: bytes
    line: Line | None
    fault: str = ""
    start: int = 0
    """At which byte of the file it begins."""


def read_lines(file: Path, line: type[Line], key: Key[Line] | None = None, keys: Keys | None = None) -> Iterator[Line]:
    """Every line, each key once; none where there is no file. A torn last line is passed over. `keys` takes the keys.

    Raises PalateError with file and line number where a line cannot be read, or says something else than an earlier
    one with the same key.
    """
    for found in scan_lines(file, line, key, keys):
        if found.line is None:
            raise bad_line(file, found.number, found.fault)
        yield found.line


def bad_line(file: Path, number: int, fault: str) -> PalateError:
    """What is wrong, where, and what to do."""
    return PalateError(
        f"{file}, line {number}: {fault}. Put the file back from a copy. Or run palate report {file.parent} --repair: "
        "it drops the lines that cannot be used, and says how many."
    )


def scan_lines(
    file: Path, line: type[Line], key: Key[Line] | None = None, keys: Keys | None = None
) -> Iterator[Scanned[Line]]:
    """Every line but a torn last one, bad ones too; a line that repeats an earlier one is left out."""
    decoder = msgspec.json.Decoder(line)
    keys = Keys() if keys is None else keys
    if file.exists() and not file.is_file():
        raise PalateError(f"{file} is not a file. Put the file back from a copy.")
    earlier: dict[Hashable, tuple[int, int]] = {}
    end = 0
    try:
        with file.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                start, end = end, end + len(raw)
                if not raw.endswith(b"\n"):
                    return
                try:
                    decoded = decoder.decode(raw)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    if not _is_json(raw) and not stream.peek(1):
                        return
                    yield Scanned(number, raw, None, fault_of(raw, error), start)
                    continue
                if key is not None and not keys.add(key(decoded)):
                    # Rare, so what the earlier lines say is looked up only now.
                    earlier = earlier or _first_lines(file, decoder, key)
                    first, content = earlier[key(decoded)]
                    if content != hash(raw):
                        yield Scanned(number, raw, None, f"it has the key of line {first} and says something else")
                    continue
                yield Scanned(number, raw, decoded, "", start)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PalateError(f"cannot read {file}: {error.strerror or error}") from error


def _first_lines(file: Path, decoder: msgspec.json.Decoder[Line], key: Key[Line]) -> dict[Hashable, tuple[int, int]]:
    """For each key the number of its first line, and a hash of what that says."""
    found: dict[Hashable, tuple[int, int]] = {}
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                found.setdefault(key(decoder.decode(raw)), (number, hash(raw)))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return found


def fault_of(raw: bytes, error: Exception) -> str:
    """Why a line cannot be read, in words."""
    if not raw.strip():
        return "it is empty"
    if b"\0" in raw:
        return "it holds NUL bytes, as after a power loss"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"it cannot be read: {error}"


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


@contextmanager
def locked(files: Iterable[Path]) -> Iterator[None]:
    """Keep every other process from writing to these files, as far as they are there. Nothing in them changes."""
    with ExitStack() as stack:
        for file in files:
            if file.is_file():
                stack.callback(os.close, _opened_alone(file, os.O_RDWR))
        yield


class AnotherWriterError(PalateError):
    """Another process is writing to the run."""


def _opened_alone(file: Path, flags: int) -> int:
    """A descriptor of a file that no other process writes to until it is closed."""
    descriptor = -1
    try:
        descriptor = os.open(file, flags, 0o644)
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise AnotherWriterError(f"another process is writing to {file.parent}; wait for it, or stop it") from error
        raise PalateError(
            f"cannot write to {file}: {error.strerror or error}. Choose another place with --out."
        ) from error
    return descriptor


class Appender:
    """Adds whole lines to a file, on the disk before `append` returns."""

    def __init__(self, file: Path) -> None:
        self._file = file
        if file.is_symlink():  # in a folder from a stranger it may lead to any file
            raise PalateError(f"{file} is a link, and palate adds lines to files only. Put the file in its place.")
        self._descriptor = _opened_alone(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
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
        """Cut the file after its last line end, so that the next line starts on its own; a last line of no JSON too."""
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        position = self._line_start(end)
        last = self._line_start(position - 1)
        if last < position and not _is_json(os.pread(self._descriptor, position - last, last)):
            position = last
        if position < end:
            os.ftruncate(self._descriptor, position)

    def _line_start(self, position: int) -> int:
        """Where the line begins that a position is in: after the last line end before it."""
        while position > 0:
            start = max(0, position - 65_536)
            newline = os.pread(self._descriptor, position - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            position = start
        return 0


def is_alive(pid: int) -> bool:
    """Whether this machine may have a process of this number."""
    if os.name != "posix":  # elsewhere nobody can ask without ending it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def remove_drafts(folder: Path) -> None:
    """Remove what `write_whole` had not finished when its process was killed: nobody would erase anybody from that."""
    for file in folder.glob(".*.*"):
        pid = file.name.rpartition(".")[2]
        if pid.isdecimal() and file.is_file() and not is_alive(int(pid)):
            file.unlink(missing_ok=True)


def write_whole(file: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file so that it is there in full or not at all; lines are written as they come."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with new_file(draft) as stream:
            stream.writelines([content] if isinstance(content, bytes) else content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
