"""A cache of answers on disk: no model is asked the same thing twice, not even after a crash."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import random
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from palate.engine._language import (
    Answer,
    Answers,
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LanguageModel,
    Likelihood,
    LikelihoodRequest,
    OnAnswer,
    WriteRequest,
    Written,
)
from palate.engine._meter import count, rehearsing, share
from palate.records import PalateError

Request = TypeVar("Request", WriteRequest, ChooseRequest, LikelihoodRequest)

FORMAT = 1
"""Part of every key: raise it when keys or values are written otherwise."""

PATIENCE = 60.0
"""Seconds to wait for another process that holds the file."""


class AnswerCache:
    """Answers as JSON in SQLite, keyed by all that could change them; several processes may use it at once.

    One thread at a time may use one object; it need not be the thread that made it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _for_the_owner_only(file)
            self._database = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            _write_ahead(self._database)
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer TEXT) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def key(self, fingerprint: str, verb: str, request: msgspec.Struct) -> bytes:
        """What identifies the answer of one model to one request, sampling and number of samples included."""
        everything = [FORMAT, fingerprint, verb, msgspec.to_builtins(request)]
        return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).digest()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The answers that are there already, as JSON."""
        found: dict[bytes, str] = {}
        try:
            for start in range(0, len(keys), 500):  # SQLite allows 999 placeholders in old builds
                some = keys[start : start + 500]
                marks = ",".join("?" * len(some))
                found.update(self._database.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", some))
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def put(self, answers: Iterable[tuple[bytes, str]]) -> None:
        """Keep these for next time; a disk that is full costs money later, not the result now."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", answers)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            warnings.warn(f"answers cannot be kept in {self._file}: {error}", stacklevel=2)

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM answers").fetchone()[0]
        return count

    def erase(self) -> int:
        """Erase every answer, so that no byte of it stays in the file; how many there were.

        An answer is kept under a hash of its request, so whom it is about cannot be told from here.
        """
        count = len(self)
        try:
            self._database.execute("PRAGMA secure_delete=ON")
            self._database.execute("DELETE FROM answers")
            self._database.execute("VACUUM")
            busy: int = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]  # waits for readers
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        if busy:
            raise PalateError(
                f"another process still reads {self._file}, so the erased answers stay in {self._file.name}-wal. "
                "Stop it and run the same command again."
            )
        return count

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _unusable(self, error: Exception) -> PalateError:
        return PalateError(
            f"cannot use the cache {self._file}: {error}. Point PALATE_CACHE at a folder that can be written, "
            "or delete the file if it is damaged."
        )


def _for_the_owner_only(file: Path) -> None:
    """Answers quote profiles. SQLite gives the files beside it the same mode. A group that shares the file stays.

    A file that is there is not opened here: to close it again would drop the locks that SQLite holds on it for other
    caches of this process, and then another process, which closes last as it thinks, takes away a log that is in use.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
        with suppress(OSError):
            beside = file.with_name(name)
            beside.chmod(beside.stat().st_mode & 0o770)


def _write_ahead(database: sqlite3.Connection) -> None:
    """Turn the write-ahead log on, waiting for others who do so at this moment.

    SQLite's own timeout does not cover this switch: two who make a new file together would deadlock,
    so it refuses one of them at once.
    """
    patience_ends = time.monotonic() + PATIENCE
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte: why it is busy is above it
            if not busy or time.monotonic() > patience_ends:
                raise
            time.sleep(random.uniform(0.001, 0.02))


class CachedLanguageModel:
    """A language model that remembers: only what was never answered before is asked.

    Failures are not kept, so the next run asks again. Where the model's own method takes `on_answer`,
    each answer is kept as soon as it is there, and a process that is killed loses only what is in flight.
    """

    def __init__(self, model: LanguageModel, cache: AnswerCache) -> None:
        self.name = model.name
        self.context = model.context
        self.model = model
        """Who answers what is not remembered."""
        self._cache = cache

    def __repr__(self) -> str:
        return f"CachedLanguageModel({self.model!r})"

    @property
    def fingerprint(self) -> str:
        """The model's own: remembering changes no answer."""
        return self.model.fingerprint

    @property
    def templated(self) -> bool:
        """The model's own."""
        return bool(getattr(self.model, "templated", True))

    def status(self) -> str:
        """The model's own status, where it has one."""
        status = getattr(self.model, "status", None)
        return str(status()) if callable(status) else ""

    def count_tokens(self, turns: Conversation) -> int | None:
        """The length of a prompt as the model sees it; None where only the server knows."""
        return self.model.count_tokens(turns)

    def write(
        self, requests: Sequence[WriteRequest], *, on_answer: OnAnswer[list[Written]] = None
    ) -> Answers[list[Written]]:
        """For each request its samples; `on_answer` hears of each as soon as it is there."""
        return self._answer("write", requests, self.model.write, list[Written], on_answer)

    def choose(self, requests: Sequence[ChooseRequest], *, on_answer: OnAnswer[Chosen] = None) -> Answers[Chosen]:
        """For each request how the next token's probability falls on the choices."""
        return self._answer("choose", requests, self.model.choose, Chosen, on_answer)

    def likelihood(
        self, requests: Sequence[LikelihoodRequest], *, on_answer: OnAnswer[list[Likelihood]] = None
    ) -> Answers[list[Likelihood]]:
        """For each request the likelihood of each continuation."""
        return self._answer("likelihood", requests, self.model.likelihood, list[Likelihood], on_answer)

    def _answer(
        self,
        verb: str,
        requests: Sequence[Request],
        ask: Callable[..., Answers[Answer]],
        kind: type[Answer],
        on_answer: OnAnswer[Answer],
    ) -> Answers[Answer]:
        places: dict[bytes, list[int]] = {}
        for index, request in enumerate(requests):
            places.setdefault(self._cache.key(self.fingerprint, verb, request), []).append(index)
        answers: dict[int, Answer | Failure] = {}

        def place(key: bytes, answer: Answer | Failure) -> None:
            for index in places[key]:
                answers[index] = answer
            share(len(answers) / len(requests))
            for index in places[key]:
                if on_answer is not None:
                    on_answer(index, answer)

        known = {} if rehearsing() else _decode(self._cache.get(list(places)), kind)
        for key, answer in known.items():
            place(key, answer)
        missing = {key: requests[first] for key, (first, *_) in places.items() if key not in known}
        count(calls=len(requests), cached=len(requests) - len(missing))
        if missing:
            self._ask_for(missing, ask, place)
        return [answers[index] for index in range(len(requests))]

    def _ask_for(
        self,
        missing: dict[bytes, Request],
        ask: Callable[..., Answers[Answer]],
        place: Callable[[bytes, Answer | Failure], None],
    ) -> None:
        keys = list(missing)

        def arrived(position: int, answer: Answer | Failure) -> None:
            self._keep([(keys[position], answer)])
            place(keys[position], answer)

        if "on_answer" in inspect.signature(ask).parameters:
            ask(list(missing.values()), on_answer=arrived)
            return
        answers = list(zip(keys, ask(list(missing.values())), strict=True))
        self._keep(answers)
        for key, answer in answers:
            place(key, answer)

    def _keep(self, answers: Iterable[tuple[bytes, object]]) -> None:
        if rehearsing():
            return
        rows = [
            (key, json.dumps(msgspec.to_builtins(answer))) for key, answer in answers if not isinstance(answer, Failure)
        ]
        if rows:
            self._cache.put(rows)


def _decode(rows: dict[bytes, str], kind: type[Answer]) -> dict[bytes, Answer]:
    """What is readable; a row that is not is as good as none."""
    found: dict[bytes, Answer] = {}
    for key, row in rows.items():
        try:
            found[key] = msgspec.convert(json.loads(row), kind)
        except (ValueError, TypeError):  # msgspec's own error is a ValueError
            continue
    return found
