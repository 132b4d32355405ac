"""Erasing one person everywhere: tables, write-ahead log, exports and the caches that grew from them.

An erasure is noted before it begins and struck off when it is complete. If the process is killed in between, the next
command finishes it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows has no flock; two processes at once are then not kept apart
    fcntl = None  # type: ignore[assignment]

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, select

from palate.collect._access import Keys
from palate.collect._database import Store, new_id, now
from palate.collect._export import RECORDS, is_export
from palate.collect._project import Project
from palate.collect._tables import (
    assignments,
    erasures,
    events,
    exports,
    invitations,
    items,
    participants,
    receipts,
    sessions,
)
from palate.data import Pseudonyms, pseudonym_key
from palate.records import PalateError

if TYPE_CHECKING:
    from palate.privacy import Place, Receipt

RECEIPTS = "receipts"
WRITTEN = ("participants.jsonl", "items.jsonl", "answers.jsonl", "survey.jsonl", "trl.jsonl", "exchange.jsonl")
USERS, CHOSEN, EDITED = "users.jsonl", "comparisons.jsonl", "completions.jsonl"
"""Of a benchmark; one that was killed, or of which everybody is erased, lacks the users or both of the others."""
CHECKPOINT_TRIES = 100
ELSEWHERE = (
    "backups and copies made elsewhere, also in memory of programs that run, such as `palate serve`, are out of reach; "
    "`palate collect restore` erases this person again"
)
MADE_OF_EXPORTS = (
    "runs and trained models that were made of an export were not searched and may hold this person: erase them with "
    "`palate forget USER --run RUN`. The ids of those who are gone are in the run and in no new export"
)
POSTGRES = "the write-ahead log and replicas of the PostgreSQL server keep old rows until they are recycled"


def forgotten_hash(keys: Keys, participant: str) -> str:
    """What a receipt calls a person."""
    return f"u-{keys.sign('forgotten', participant)[:32]}"


def is_known(store: Store, participant: str) -> bool:
    """Whether anything is held on that person."""
    with store.reading() as connection:
        known = select(participants.c.id).where(participants.c.id == participant)
        return connection.execute(known).first() is not None


def forget(project: Project, store: Store, keys: Keys, participant: str, *, reason: str) -> Path:
    """Erase a person and write a receipt; where it is written."""
    if not is_known(store, participant):
        # No id is suggested: it would tell whoever mistypes one who else is here.
        raise PalateError("there is nobody with this id; nothing was erased. An earlier call may have done it.")
    with store.writing() as connection:
        store.insert_new(connection, erasures, participant=participant, reason=reason)
        connection.execute(sessions.delete().where(sessions.c.participant == participant))
    return _finish(project, store, keys, participant)


def finish_erasures(project: Project, store: Store, keys: Keys) -> list[Path]:
    """Finish what an earlier process began."""
    with store.reading() as connection:
        begun = list(connection.execute(select(erasures.c.participant)).scalars())
    return [_finish(project, store, keys, participant) for participant in begun]


def enforce_retention(project: Project, store: Store, keys: Keys, today: datetime | None = None) -> list[Path]:
    """Erase everybody who last answered longer ago than the project keeps people."""
    if not project.retention_days:
        return []
    last = ((today or datetime.now(UTC)) - timedelta(days=project.retention_days)).date().isoformat()
    seen = sa.func.coalesce(participants.c.seen, participants.c.started, participants.c.invited)
    old = select(participants.c.id).where((participants.c.role == "annotator") & (seen < last))
    with store.reading() as connection:
        people = list(connection.execute(old).scalars())
    receipts: list[Path] = []
    failed: PalateError | None = None
    for person in people:
        try:
            receipts.append(forget(project, store, keys, person, reason="retention"))
        except PalateError as error:  # the others' time is over as well
            failed = failed or error
    if failed:
        raise failed
    return receipts


def is_forgotten(project: Project, keys: Keys, participant: str) -> bool:
    """Whether there is a receipt that this person was erased."""
    return _receipt_file(project, keys, participant).exists()


def note_forgotten(project: Project, store: Store, keys: Keys, connection: Connection) -> None:
    """Note for erasure whoever has a receipt: after a backup from before their erasure was brought back."""
    for person in list(connection.execute(select(participants.c.id)).scalars()):
        if is_forgotten(project, keys, person):
            store.insert_new(connection, erasures, participant=person, reason="restored")
            connection.execute(sessions.delete().where(sessions.c.participant == person))


def _receipt_file(project: Project, keys: Keys, participant: str) -> Path:
    return project.folder / RECEIPTS / f"forgotten-{forgotten_hash(keys, participant)}.json"


def erased_since(store: Store, people: Iterable[str]) -> list[str]:
    """Those of whom an erasure was begun or finished since they were read."""
    with store.reading() as connection:
        begun = set(connection.execute(select(erasures.c.participant)).scalars())
        kept = set(connection.execute(select(participants.c.id)).scalars()) - begun
    return [person for person in people if person not in kept]


def _finish(project: Project, store: Store, keys: Keys, participant: str) -> Path:
    """Files first, since the tables tell where they are; the note that it was begun goes last."""
    with alone_with_exports(project):
        try:
            return _erase(project, store, keys, participant)
        except OSError as error:
            what = f"{error.filename2 or error.filename} cannot be written ({error.strerror or error})"
            raise PalateError(f"{what}; the erasure is noted, and the next command finishes it") from error


_ONE_THREAD = threading.Lock()


@contextmanager
def alone_with_exports(project: Project) -> Iterator[None]:
    """Wait until nobody writes this project's exports, in this process or another.

    Of two people who withdraw at the same moment, each rewrite of a file would bring the other one back.
    """
    with _ONE_THREAD:
        folder = os.open(project.folder, os.O_RDONLY) if fcntl else None
        try:
            if folder is not None:
                with suppress(OSError):  # a file system that has no locks
                    fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            if folder is not None:
                os.close(folder)


def _erase(project: Project, store: Store, keys: Keys, participant: str) -> Path:
    from palate.privacy import Place, Receipt, pushes_of, write_receipt

    with store.reading() as connection:
        folders = [Path(path) for path in connection.execute(select(exports.c.path)).scalars()]
    # A database that came from a stranger may name any folder of this machine.
    own = [folder for folder in folders if is_export(folder)]
    others = [f"{folder} is no export of a collection, and was left alone" for folder in folders
              if folder.exists() and folder not in own]  # fmt: skip
    places = [erase_from_export(folder, participant) for folder in own]
    pushed = [one.out_of_reach for folder in own for one in pushes_of(folder)]
    erased = _from_tables(store, keys, participant)
    places.append(Place(kind="collection", path=_where(store), erased=erased))
    hashed = forgotten_hash(keys, participant)
    receipt = Receipt(
        users=[hashed],
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dry_run=False,
        places=places,
        not_erased=[
            ELSEWHERE,
            *([MADE_OF_EXPORTS] if folders else []),
            *others,
            *pushed,
            *([] if store.sqlite else [POSTGRES]),
        ],
        retrain=[],
        words=[],
        vectors=[],
    )
    file = _receipt_file(project, keys, participant)
    if not file.exists() or erased:
        write_receipt(receipt, file)
    scrub_files(store)
    with store.writing() as connection:
        connection.execute(erasures.delete().where(erasures.c.participant == participant))
    if store.sqlite:  # the note held the id
        _empty_log(store)
    return file


def _from_tables(store: Store, keys: Keys, participant: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    with store.writing(alone=True) as connection:
        own = select(items.c.id).where(items.c.participant == participant)
        steps = [
            ("answers", events, events.c.participant == participant),
            ("assignments", assignments, assignments.c.participant == participant),
            ("assignments", assignments, assignments.c.item.in_(own)),
            ("own prompts", items, items.c.participant == participant),
            ("sessions", sessions, sessions.c.participant == participant),
            ("invitations", invitations, invitations.c.participant == participant),
            ("people", participants, participants.c.id == participant),
        ]
        for name, table, condition in steps:
            counts[name] = counts.get(name, 0) + connection.execute(table.delete().where(condition)).rowcount
        if counts["people"]:
            reason = select(erasures.c.reason).where(erasures.c.participant == participant)
            connection.execute(receipts.insert().values(
                id=new_id("r"), participant=forgotten_hash(keys, participant), date=now(),
                data=msgspec.json.encode(
                    {"reason": connection.execute(reason).scalar_one_or_none(), "erased": counts}
                ).decode(),
            ))  # fmt: skip
    return {name: count for name, count in counts.items() if count}


def scrub_files(store: Store) -> None:
    """Deleted text leaves the files: SQLite overwrites pages and empties its log; PostgreSQL rewrites its tables."""
    if store.sqlite:
        _empty_log(store)
        return
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in (events, assignments, items, participants, invitations, sessions):
            connection.execute(sa.text(f"VACUUM (FULL) {table.name}"))


def _empty_log(store: Store) -> None:
    for _ in range(CHECKPOINT_TRIES):
        with store.alone_in_process(), store.engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            busy, *_ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return
        time.sleep(0.1)
    raise PalateError("somebody is reading the database all the time; the erasure is finished by the next command")


def _where(store: Store) -> str:
    return str(store.engine.url.database) if store.sqlite else store.engine.url.render_as_string(hide_password=True)


def erase_from_export(folder: Path, participant: str) -> Place:
    """Rewrite every file of an export without the person."""
    from palate.data import load_benchmark
    from palate.privacy import Place, finish_erasures, remove_drafts, rewrite
    from palate.privacy import forget as forget_in_folder

    erased: dict[str, int] = {}
    receipts: list[Receipt] = []
    benchmark = folder / "benchmark"
    if benchmark.is_dir():
        names = Pseudonyms(pseudonym_key())  # that of every palate command, so that any of them can finish it
        receipts = finish_erasures(names)  # until then the benchmark may not be whole, and cannot be read
        _remove_cut_off(benchmark)
    for holder in (folder, folder / RECORDS):
        remove_drafts(holder, WRITTEN)
    if not receipts and not _names(folder, participant):
        return Place(kind="export", path=str(folder), erased={})
    if benchmark.is_dir():
        try:
            named = _is_whole(benchmark) and participant in load_benchmark(benchmark).users
        except PalateError as error:
            raise PalateError(
                f"{error}\nSomebody who withdrew has to be erased from this export. Repair the file, or delete "
                f"{folder}, and run any command of the collection again; no other runs until then."
            ) from error
        if named:
            receipts = [forget_in_folder(participant, names, data=[benchmark], keep_answers=True)]
        for place in (place for receipt in receipts for place in receipt.places):
            for name, count in place.erased.items():
                erased[name] = erased.get(name, 0) + count

    def without(row: dict[str, object]) -> dict[str, object] | None:
        if participant in [row.get(key) for key in ("id", "user_id", "user", "participant")]:
            erased["lines"] = erased.get("lines", 0) + 1
            return None
        return row

    for file in sorted([*folder.glob("*.jsonl"), *folder.glob(f"{RECORDS}/*.jsonl")]):
        rewrite(file, without, write=True, keep_empty=True)
    return Place(kind="export", path=str(folder), erased=erased)


def _names(folder: Path, participant: str) -> bool:
    """Whether any file of an export holds a person's id, which is random; most who withdraw early are in none."""
    id = msgspec.json.encode(participant)[1:-1]
    return any(id in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def _remove_cut_off(benchmark: Path) -> None:
    """Remove a benchmark that an export was killed over: nobody can read it, and it would stop the erasure."""
    from palate.privacy import remove_drafts

    remove_drafts(benchmark, (USERS, CHOSEN, EDITED, "card.json"))
    if _is_whole(benchmark):
        return
    for name in (USERS, CHOSEN, EDITED):
        (benchmark / name).unlink(missing_ok=True)
    if not any(benchmark.iterdir()):
        benchmark.rmdir()


def _is_whole(benchmark: Path) -> bool:
    return (benchmark / USERS).is_file() and any((benchmark / name).is_file() for name in (CHOSEN, EDITED))
