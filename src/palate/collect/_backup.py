"""Backups that may be taken while people answer: one snapshot of all tables as lines of JSON, for either database.

The last line holds the hash of all lines before it. A file that is torn or changed is refused before anything is
touched, and a restore is one transaction.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import select
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from palate.collect._access import Keys
from palate.collect._database import Store, now
from palate.collect._forget import note_forgotten
from palate.collect._project import Project
from palate.collect._tables import metadata, sessions
from palate.data import unpack
from palate.records import PalateError, new_file

FORMAT = 1


def backup(project: Project, store: Store, file: Path) -> dict[str, int]:
    """Write everything to a file that only its owner can read; how many rows of each table."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    counts: dict[str, int] = {}
    digest = hashlib.sha256()
    try:
        with (
            new_file(draft, 0o600) as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as stream,
            store.reading() as connection,
        ):

            def write(value: object) -> None:
                line = msgspec.json.encode(value) + b"\n"
                digest.update(line)
                stream.write(line)

            write({"palate": "collect", "format": FORMAT, "project": project.name, "date": now()})
            for table in metadata.sorted_tables:
                name, columns = str(table.name), [str(column.name) for column in table.columns]
                for row in connection.execute(select(table)):
                    write([name, dict(zip(columns, row, strict=True))])
                    counts[name] = counts.get(name, 0) + 1
            stream.write(msgspec.json.encode({"sha256": digest.hexdigest()}) + b"\n")
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
    except OSError as error:
        raise PalateError(f"the backup cannot be written to {file}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return counts


def restore(project: Project, store: Store, keys: Keys, file: Path, *, force: bool = False) -> dict[str, int]:
    """Put a backup in the place of everything that is there; how many rows of each table.

    Whom a receipt names is noted for erasure in the same transaction, so that nobody comes back if the process ends
    here; `finish_erasures` does the rest.
    """
    rows = _read(file)
    header = rows[0] if rows else None
    if not isinstance(header, dict) or header.get("palate") != "collect" or header.get("format") != FORMAT:
        raise PalateError(f"{file} is not a backup of palate collect that this version can read")
    if header.get("project") != project.name:
        raise PalateError(f"{file} is a backup of the project {header.get('project')!r}, not of {project.name!r}")
    tables = {table.name: table for table in metadata.sorted_tables}
    counts: dict[str, int] = {}
    with store.writing(alone=True) as connection:
        held = connection.execute(select(sa.func.count()).select_from(tables["events"])).scalar_one()
        if held and not force:
            raise PalateError(f"the database holds {held:,} answers already; --force replaces them with the backup")
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for name, values in _known_rows(file, rows[1:]):
            # a session is worth a sign-in to whoever wrote the file; people open their link again
            if name != sessions.name:
                try:
                    connection.execute(tables[name].insert().values(**values))
                except (IntegrityError, DataError, ProgrammingError, InterfaceError, OverflowError) as error:
                    raise _misfit(file) from error
                counts[name] = counts.get(name, 0) + 1
        if not store.sqlite:  # PostgreSQL counts on from where it was, not from what was put in
            for name, column in (("events", "sequence"), ("assignments", "number")):
                top = select(sa.func.coalesce(sa.func.max(tables[name].c[column]), 0) + 1).scalar_subquery()
                connection.execute(select(sa.func.setval(sa.func.pg_get_serial_sequence(name, column), top, False)))
        note_forgotten(project, store, keys, connection)
    return counts


def _known_rows(file: Path, rows: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Table and values of each row; PalateError where a row is of no table, or has a column that its table lacks."""
    columns = {table.name: {column.name for column in table.columns} for table in metadata.sorted_tables}
    for row in rows:
        match row:
            case [str(name), dict(values)] if name in columns and values.keys() <= columns[name]:
                yield name, values
            case _:
                raise _misfit(file)


def _misfit(file: Path) -> PalateError:
    return PalateError(f"the backup {file} cannot be read, so nothing was changed: a row fits no table")


def _read(file: Path) -> list[Any]:
    try:
        lines = unpack(file.read_bytes(), file).splitlines(keepends=True)
        last = msgspec.json.decode(lines[-1])
        if last["sha256"] != hashlib.sha256(b"".join(lines[:-1])).hexdigest():
            raise ValueError("its lines were changed")
        return [msgspec.json.decode(line) for line in lines[:-1]]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise PalateError(f"the backup {file} cannot be read, so nothing was changed: {why}") from error
