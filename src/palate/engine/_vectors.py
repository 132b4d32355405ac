"""A cache of text vectors on disk: the same text is read by an encoder once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.records import PalateError

Vectors = NDArray[np.float32]


class VectorCache:
    """Vectors keyed by encoder and text, in SQLite; several processes may use it at once."""

    def __init__(self, file: Path, encoder: str) -> None:
        self._encoder = encoder.encode()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(file, timeout=60, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise PalateError(
                f"cannot use the cache {file}: {error}. Point PALATE_CACHE at a folder that can be written, "
                "or delete the file if it is damaged."
            ) from error

    def key(self, text: str) -> bytes:
        """What identifies the vector of this text by this encoder."""
        return hashlib.sha256(self._encoder + b"\x00" + text.encode("utf-8", "surrogatepass")).digest()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors that are there already."""
        found: dict[bytes, Vectors] = {}
        for start in range(0, len(keys), 500):  # SQLite allows 999 placeholders in old builds
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            rows = self._database.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some)
            found.update((key, np.frombuffer(vector, dtype=np.float32)) for key, vector in rows)
        return found

    def put(self, vectors: Iterable[tuple[bytes, Vectors]]) -> None:
        """Keep these for next time; a disk that is full costs speed later, not the result now."""
        rows = [(key, vector.astype(np.float32).tobytes()) for key, vector in vectors]
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
