"""Text vectors on disk: the same text is read by an encoder once, and is forgotten for good when asked."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from palate.records import PalateError, cache_folder

try:
    import fcntl
except ImportError:  # Windows has no flock; two writers at once are then not kept apart
    fcntl = None  # type: ignore[assignment]

Vectors = NDArray[np.float32]
Pair = tuple[str, str | None]
"""A text and the context it is read in."""

HASH = 16
RECORD = 2 * HASH
"""A key is the hash of the text and the hash of its context, so that either can be found again to be forgotten."""
ERASING, ERASED = b"\xff" * RECORD, bytes(RECORD)
"""What stands in place of a key while its vector is overwritten, and afterwards."""
MAGIC = b"palate vectors 1"
TEXTS_AT_A_TIME = 1_024


def vector_key(text: str, context: str | None = None) -> bytes:
    """What identifies the vector of a text within one encoder's store; an empty context counts as no context."""
    return text_hash(text) + (text_hash(context) if context else bytes(HASH))


def text_hash(text: str) -> bytes:
    """By which a store knows a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:HASH]


def _names_any(key: bytes, hashes: set[bytes]) -> bool:
    return key[:HASH] in hashes or key[HASH:] in hashes


class VectorStore:
    """The vectors of one encoder: a flat file that is mapped into memory, and a file of keys beside it.

    Vectors are on the disk before their keys, so that a crash leaves at most a tail without a key, which is cut
    off. Several processes may use one folder at once; within one process, one thread at a time may use one object.
    """

    def __init__(self, folder: Path) -> None:
        self._keys_file, self._vectors_file = folder / "keys", folder / "vectors"
        self._unsaved: dict[bytes, Vectors] = {}
        self._start_anew()
        try:
            with self._locked() as keys:
                self._trim(keys)
                self._refresh()
                self._overwrite(keys, [row for row, key in enumerate(self._key_list()) if key == ERASING])
        except OSError as error:
            raise PalateError(
                f"cannot use the cache {folder}: {error.strerror or error}. Point PALATE_CACHE at a folder that can "
                "be written, or delete this one if it is damaged."
            ) from error

    def __len__(self) -> int:
        self._refresh()
        return len(self._rows)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors that are there already."""
        self._refresh()
        found = {key: self._unsaved[key] for key in keys if key in self._unsaved}
        asked = list(dict.fromkeys(key for key in keys if key in self._rows))
        if asked:
            rows = [self._rows[key] for key in asked]
            # Vectors first and keys after: who forgets blots out the key first, so a key that still stands vouches.
            vectors = np.asarray(self._vectors[rows])
            for key, standing, vector in zip(asked, self._keys[rows].tolist(), vectors, strict=True):
                if key == standing:
                    found[key] = vector
                else:
                    del self._rows[key]
        return found

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep these for next time; a disk that is full costs speed later, not the result now."""
        try:
            with self._locked() as stream:
                self._trim(stream)
                self._refresh()
                new = {key: row for row, key in enumerate(keys) if key not in self._rows}
                self._append(stream, list(new), np.ascontiguousarray(vectors[list(new.values())], "<f4"))
        except OSError as error:
            self._unsaved.update(zip(keys, vectors, strict=True))
            reason = error.strerror or error
            warnings.warn(f"vectors cannot be kept in {self._keys_file.parent}: {reason}", stacklevel=2)

    def forget(self, texts: Sequence[str]) -> int:
        """Erase every vector of these texts, and of others read in their context; how many there were.

        Vectors and keys are overwritten where they stand, so no byte of them stays in the files.
        """
        gone = {text_hash(text) for text in texts}
        for key in [key for key in self._unsaved if _names_any(key, gone)]:
            del self._unsaved[key]
        try:
            with self._locked() as stream:
                self._trim(stream)
                self._refresh()
                rows = [row for row, key in enumerate(self._key_list()) if _names_any(key, gone)]
                self._overwrite(stream, rows)
        except OSError as error:
            raise PalateError(
                f"cannot erase vectors in {self._keys_file.parent}: {error.strerror or error}. "
                "Nothing is lost by deleting the folder instead."
            ) from error
        for key in [key for key in self._rows if _names_any(key, gone)]:
            del self._rows[key]
        return len(rows)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The file of keys, for one writer at a time. Opened again each time: a fork would share the lock."""
        self._keys_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._keys_file.open("ab"), self._keys_file.open("r+b", buffering=0) as stream:
            if fcntl:
                fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream

    def _trim(self, keys: BinaryIO) -> None:
        """Cut off what a writer that died has left behind."""
        dimensions = self._read_dimensions()
        with self._vectors_file.open("ab") as vectors:
            if dimensions is None:
                rows, width = -1, 0
            else:
                width = 4 * dimensions
                rows = min(_size(self._keys_file) // RECORD - 1, _size(self._vectors_file) // width)
            for stream, whole in ((keys, RECORD * (rows + 1)), (vectors, width * max(rows, 0))):
                if os.fstat(stream.fileno()).st_size > whole:
                    stream.truncate(whole)

    def _append(self, keys: BinaryIO, new: Sequence[bytes], vectors: Vectors) -> None:
        if not new:
            return
        dimensions = vectors.shape[1]
        if self.dimensions not in (None, dimensions):
            raise PalateError(
                f"{self._keys_file.parent} holds vectors of {self.dimensions} numbers, and {dimensions} were given. "
                "Delete the folder; its vectors are made again when they are needed."
            )
        header = b"" if self.dimensions else MAGIC + dimensions.to_bytes(HASH, "little")
        try:
            with self._vectors_file.open("ab", buffering=0) as stream:
                _write(stream, vectors.tobytes())
                os.fsync(stream.fileno())
            keys.seek(0, os.SEEK_END)
            _write(keys, header + b"".join(new))
        except OSError:
            self._trim(keys)
            raise

    def _overwrite(self, keys: BinaryIO, rows: Sequence[int]) -> None:
        """Blot out keys and vectors; the marks let the next to open the store finish what a crash broke off."""
        if not rows or self.dimensions is None:
            return
        width = 4 * self.dimensions
        _fill(keys, [RECORD * (row + 1) for row in rows], ERASING)
        with self._vectors_file.open("r+b", buffering=0) as vectors:
            _fill(vectors, [width * row for row in rows], bytes(width))
        _fill(keys, [RECORD * (row + 1) for row in rows], ERASED)

    def _start_anew(self) -> None:
        self.dimensions: int | None = None
        self._rows: dict[bytes, int] = {}
        self._seen = 0
        self._keys: NDArray[np.void] = np.zeros(0, f"V{RECORD}")
        self._vectors: Vectors = np.zeros((0, 0), np.float32)

    def _refresh(self) -> None:
        """Take in what this process or another has added since."""
        rows = max(0, _size(self._keys_file) // RECORD - 1)
        if rows < self._seen:  # somebody deleted the folder
            self._start_anew()
        if rows <= self._seen or (dimensions := self._read_dimensions()) is None:
            return
        rows = min(rows, _size(self._vectors_file) // (4 * dimensions))
        if rows <= self._seen:
            return
        self.dimensions = dimensions
        self._keys = np.memmap(self._keys_file, f"V{RECORD}", "r", RECORD, (rows,))
        self._vectors = np.memmap(self._vectors_file, np.dtype("<f4"), "r", 0, (rows, dimensions))
        self._rows.update(zip(self._keys[self._seen :].tolist(), range(self._seen, rows), strict=True))
        for mark in (ERASING, ERASED):
            self._rows.pop(mark, None)
        self._seen = rows

    def _key_list(self) -> list[bytes]:
        found: list[bytes] = self._keys.tolist()
        return found

    def _read_dimensions(self) -> int | None:
        try:
            with self._keys_file.open("rb") as stream:
                header = stream.read(RECORD)
        except FileNotFoundError:
            return None
        if len(header) < RECORD:
            return None
        if header[:HASH] != MAGIC:
            raise PalateError(f"{self._keys_file} is not a file of this version of palate. Delete its folder.")
        return int.from_bytes(header[HASH:], "little")


def remembered(
    store: VectorStore,
    texts: Sequence[str],
    contexts: Sequence[str | None] | None,
    read: Callable[[Sequence[Pair]], Vectors],
    *,
    keep: bool = True,
) -> list[Vectors]:
    """A vector for each text: from the store where it is known, else read, a thousand at a time, and mostly kept."""
    if contexts is not None and len(contexts) != len(texts):
        raise PalateError(f"{len(texts)} texts came with {len(contexts)} contexts; give one context for each text")
    given = contexts if contexts is not None else [None] * len(texts)
    pairs = [(text, context or None) for text, context in zip(texts, given, strict=True)]
    keys = [vector_key(*pair) for pair in pairs]
    found = store.get(keys)
    unknown = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in found}
    # The longest first, over all of them, so that texts of like length are read together.
    missing = sorted(unknown.items(), key=lambda item: -len(item[1][0]) - len(item[1][1] or ""))
    for start in range(0, len(missing), TEXTS_AT_A_TIME):
        some = missing[start : start + TEXTS_AT_A_TIME]
        vectors = read([pair for _, pair in some])
        new = [key for key, _ in some]
        if keep:
            store.put(new, vectors)
        found.update(zip(new, vectors, strict=True))
    return [found[key] for key in keys]


def vectors_folder() -> Path:
    """Where every encoder has the folder of its vectors, named by its fingerprint."""
    return cache_folder() / "vectors"


def forget_vectors(texts: Sequence[str], root: Path | None = None) -> int:
    """Erase these texts' vectors, by whichever encoder, from the cache for good; how many there were."""
    stores = sorted((root or vectors_folder()).glob("*/keys"))
    return sum(VectorStore(file.parent).forget(texts) for file in stores)


def texts_with_vectors(root: Path | None = None) -> set[bytes]:
    """The hashes of all texts and contexts that have vectors: what is left to be found of them."""
    found: set[bytes] = set()
    for file in sorted((root or vectors_folder()).glob("*/keys")):
        content = file.read_bytes()[RECORD:]
        found.update(content[start : start + HASH] for start in range(0, len(content) - HASH + 1, HASH))
    return found - {ERASED[:HASH], ERASING[:HASH]}


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _write(stream: BinaryIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def _fill(stream: BinaryIO, places: Sequence[int], content: bytes) -> None:
    for place in places:
        stream.seek(place)
        _write(stream, content)
    os.fsync(stream.fileno())
