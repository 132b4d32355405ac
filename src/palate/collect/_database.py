"""Where everything is kept: SQLite or PostgreSQL, an append-only log of events, and what stands after them.

An answer is acknowledged after its transaction is on disk (SQLite: write-ahead log with `synchronous=FULL`), so that
neither a crash nor `kill -9` loses one. A retry has the same client-made id and changes nothing.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError

from palate.collect._project import DEFAULT_DATABASE, Project
from palate.collect._records import Answer, Collected, Item, Participant, SurveyAnswer
from palate.collect._tables import assignments, events, items, participants, projects
from palate.records import PalateError

DATABASE_VARIABLE = "PALATE_COLLECT_DATABASE"
BUSY_MILLISECONDS = 20_000
_LOCK = 0x70616C61
"""What writers of PostgreSQL that need to be alone agree on."""


class FullError(PalateError):
    """The disk of the database is full. Nothing of what was sent is kept."""


class ConflictError(PalateError):
    """What was sent contradicts what is there."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person did, as it is appended to the log."""

    id: str
    participant: str
    kind: str
    """`answer`, `undo` or `survey`."""
    task: str
    item: str
    repeat: int = 0
    data: dict[str, Any] = {}


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One item that one person is asked about, with the order of its responses."""

    item: Item
    repeat: int
    shown: tuple[int, ...]
    position: int
    probability: float | None = None


def now() -> str:
    """This moment, as the tables hold it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def database_url(project: Project) -> str:
    """From the environment, else from the project, else a SQLite file in the project's folder."""
    url = os.environ.get(DATABASE_VARIABLE, "").strip() or project.database.strip()
    if url.startswith("$"):
        name = url[1:]
        url = os.environ.get(name, "").strip()
        if not url:
            raise PalateError(f"database = '${name}' in the project names an environment variable that is not set")
    if not url:
        return f"sqlite:///{(project.folder / DEFAULT_DATABASE).resolve()}"
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return f"postgresql+psycopg://{url.removeprefix(scheme)}"
    if url.startswith(("sqlite:///", "postgresql+psycopg://")):
        return url
    raise PalateError("a database is written postgresql://USER@HOST/NAME or sqlite:///FILE")


class Store:
    """The tables, and the questions that the program asks them."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self.sqlite = self.engine.dialect.name == "sqlite"
        self._one_writer = threading.Lock()

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A snapshot: everything read in it belongs together."""
        with _explained(), self.engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[Connection]:
        """A transaction: on disk as a whole when it is left, or not at all.

        SQLite has one writer at a time; `alone` asks for the same on PostgreSQL, for decisions that depend on counts.
        """
        guard = self._one_writer if self.sqlite else threading.Lock()
        with _explained(), guard, self.engine.connect() as connection:
            connection = connection.execution_options(palate_write=True)
            with connection.begin():
                if alone and not self.sqlite:
                    connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
                yield connection

    @contextmanager
    def alone_in_process(self) -> Iterator[None]:
        """Keep this process's writers away, for what SQLite does outside of transactions."""
        with self._one_writer:
            yield

    def migrate(self) -> None:
        """Bring the tables to this version of palate. Tables of a newer version are refused."""
        from alembic import command
        from alembic.config import Config
        from alembic.runtime.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "_migrations").replace("%", "%%"))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        head = ScriptDirectory.from_config(config).get_current_head()
        with self.reading() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
        if current == head:
            return
        if current is not None and current not in known:
            raise PalateError(f"the database was made by a newer palate (revision {current}); update palate")
        with self.writing(alone=True) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def insert_new(self, connection: Connection, table: sa.Table, **values: object) -> bool:
        """Insert a row unless its key is taken; whether it was new."""
        insert = sqlite.insert(table) if self.sqlite else postgresql.insert(table)
        return connection.execute(insert.values(**values).on_conflict_do_nothing()).rowcount == 1

    def record(self, *new: Event) -> list[bool]:
        """Append events, all or none; for each, whether it is new. A known id with other content is refused."""
        with self.writing() as connection:
            return [self.append(connection, one) for one in new]

    def append(self, connection: Connection, one: Event, date: str | None = None) -> bool:
        """Append one event within a transaction."""
        date = date or now()
        data = msgspec.json.encode(one.data).decode()
        values: dict[str, Any] = {
            "id": one.id, "participant": one.participant, "kind": one.kind, "task": one.task, "item": one.item,
            "repeat": one.repeat, "data": data,
        }  # fmt: skip
        if self.insert_new(connection, events, **values, date=date):
            person = participants.c.id == one.participant
            connection.execute(participants.update().where(person).values(seen=date[:10]))
            return True
        known = connection.execute(select(events).where(events.c.id == one.id)).one()
        if any(getattr(known, name) != value for name, value in values.items()):
            raise ConflictError("another answer has this id already")
        return False

    def standing(self, connection: Connection, participant: str, task: str) -> dict[tuple[str, int], dict[str, Any]]:
        """What a person's answers in a task are after edits and undos, by item and repeat, in order."""
        wanted = (events.c.participant == participant) & (events.c.task == task)
        rows = connection.execute(select(events).where(wanted).order_by(events.c.sequence))
        return {key: msgspec.json.decode(row.data) for key, row in _stand(rows).items()}

    def assigned(self, connection: Connection, participant: str, task: str) -> list[Assignment]:
        """What a person was given in a task, in order."""
        query = (
            select(assignments, items.c.data)
            .join(items, items.c.id == assignments.c.item)
            .where((assignments.c.participant == participant) & (assignments.c.task == task))
            .order_by(assignments.c.position, assignments.c.number)
        )
        return [
            Assignment(
                item=msgspec.json.decode(row.data, type=Item),
                repeat=row.repeat,
                shown=tuple(msgspec.json.decode(row.shown)),
                position=row.position,
                probability=row.probability,
            )
            for row in connection.execute(query)
        ]

    def assign(self, connection: Connection, participant: str, task: str, new: Sequence[Assignment]) -> None:
        """Give a person items."""
        for one in new:
            self.insert_new(
                connection, assignments, participant=participant, task=task, item=one.item.id, repeat=one.repeat,
                position=one.position, shown=msgspec.json.encode(one.shown).decode(), probability=one.probability,
                created=now(),
            )  # fmt: skip

    def sync_items(self, project: Project) -> None:
        """Bring the items of the project's files in. One that was given out must not change: it may be on a screen."""
        faults: list[str] = []
        with self.writing(alone=True) as connection:
            self._claim(connection, project)
            known = {row.id: row for row in connection.execute(select(items).where(items.c.participant.is_(None)))}
            given = set(connection.execute(select(assignments.c.item).distinct()).scalars())
            kept = set()
            for task, rows in project.items.items():
                for position, item in enumerate(rows):
                    data = msgspec.json.encode(item).decode()
                    kept.add(item.id)
                    values = {"task": task, "position": position, "data": data, "active": True}
                    if item.id not in known:
                        connection.execute(items.insert().values(id=item.id, **values))
                    elif (row := known[item.id]).data != data or row.task != task:
                        if item.id in given:
                            faults.append(f"{item.id} was given out and must not change; give the new text a new id")
                        connection.execute(items.update().where(items.c.id == item.id).values(**values))
                    else:
                        connection.execute(items.update().where(items.c.id == item.id).values(**values))
            for id in known.keys() - kept:
                connection.execute(items.update().where(items.c.id == id).values(active=False))
            if faults:
                raise PalateError("the items of this project changed:" + "".join(f"\n  - {fault}" for fault in faults))

    def _claim(self, connection: Connection, project: Project) -> None:
        """Refuse the database of another project."""
        held = connection.execute(select(projects.c.name)).scalars().first()
        if held is None:
            connection.execute(projects.insert().values(name=project.name))
        elif held != project.name:
            raise PalateError(
                f"the database holds the project {held!r}, not {project.name!r}: give each a database of its own. "
                f"If this is the same project under a new name, write name = {held!r} in its file."
            )

    def collected(self, project: Project) -> Collected:
        """Everything that stands. People who withdrew are not in the tables any more."""
        with self.reading() as connection:
            people = list(connection.execute(select(participants).where(participants.c.role == "annotator")))
            every = [msgspec.json.decode(data, type=Item) for data in connection.execute(
                select(items.c.data).order_by(items.c.task, items.c.position, items.c.id)
            ).scalars()]  # fmt: skip
            given = {(row.participant, row.item, row.repeat): row for row in connection.execute(select(assignments))}
            log: dict[tuple[str, str], list[Any]] = {}
            for row in connection.execute(select(events).order_by(events.c.sequence)):
                log.setdefault((row.participant, row.task), []).append(row)
        annotators = {row.id for row in people}
        answers: list[Answer] = []
        survey: list[SurveyAnswer] = []
        for (participant, _), rows in log.items():
            if participant not in annotators:
                continue
            for row in _stand(rows).values():
                data = msgspec.json.decode(row.data)
                if row.kind == "survey":
                    survey.append(SurveyAnswer(
                        id=row.id, participant=participant, task=row.task, question=row.item, value=data["value"],
                        free=data.get("free", False), date=row.date,
                    ))  # fmt: skip
                    continue
                assignment = given.get((participant, row.item, row.repeat))
                raw = {
                    **data, "id": row.id, "participant": participant, "task": row.task, "item": row.item,
                    "repeat": row.repeat, "date": row.date, "sequence": row.sequence,
                    "shown": msgspec.json.decode(assignment.shown) if assignment else data.get("shown", [0]),
                    "probability": assignment.probability if assignment else None,
                }  # fmt: skip
                answers.append(msgspec.convert(raw, Answer))
        answers.sort(key=lambda answer: answer.sequence)
        order: dict[str, int] = {}
        numbered = []
        for answer in answers:
            order[answer.participant] = order.get(answer.participant, -1) + 1
            numbered.append(msgspec.structs.replace(answer, sequence=order[answer.participant]))
        return Collected(
            project=project.name,
            title=project.title,
            version=project.version,
            licence=project.licence,
            participants=tuple(_participant(row) for row in people),
            items=tuple(every),
            answers=tuple(numbered),
            survey=tuple(survey),
        )


def open_store(project: Project) -> Store:
    """The store of a project, with its tables and items up to date."""
    store = Store(database_url(project))
    try:
        store.migrate()
        store.sync_items(project)
    except BaseException:
        store.close()
        raise
    return store


def new_id(letter: str) -> str:
    """A random id, such as `p-3f9c0a4be1d2`."""
    return f"{letter}-{secrets.token_hex(8)}"


def _stand(rows: Sequence[Any] | sa.CursorResult[Any]) -> dict[tuple[str, int], Any]:
    """The last event for each item and repeat, unless it takes the answer back."""
    standing: dict[tuple[str, int], Any] = {}
    for row in rows:
        standing.pop((row.item, row.repeat), None)  # so that the order is that of the last event
        if row.kind != "undo":
            standing[row.item, row.repeat] = row
    return standing


def _participant(row: Any) -> Participant:
    return Participant(
        id=row.id,
        strata=msgspec.json.decode(row.strata),
        consent=row.consent,
        invited=row.invited,
        started=row.started,
        completed=row.completed,
    )


def _engine(url: str) -> Engine:
    from palate.engine import require

    if not url.startswith("sqlite"):
        require("psycopg", "postgres")
        return sa.create_engine(url, pool_size=16, max_overflow=32, pool_pre_ping=True, hide_parameters=True)
    engine = sa.create_engine(url, pool_size=16, max_overflow=48, hide_parameters=True)
    if engine.url.database:
        with suppress(OSError):  # there already, or for SQLite to say; what it writes beside it gets the same mode
            os.close(os.open(engine.url.database, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def settings(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions of its own, and too late
        for pragma in (
            f"busy_timeout={BUSY_MILLISECONDS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON",
            "secure_delete=ON",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("palate_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


@contextmanager
def _explained() -> Iterator[None]:
    """Faults of the database in words."""
    try:
        yield
    except DBAPIError as error:
        words = str(error.orig).lower()
        if "disk is full" in words or "no space left" in words or "disk i/o error" in words:
            raise FullError("the disk of the database is full, or cannot be written to; nothing was saved") from error
        if isinstance(error, OperationalError):
            text = " ".join(str(error.orig).split())
            raise PalateError(f"the database cannot be used: {text}") from error
        raise
