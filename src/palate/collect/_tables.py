"""The tables of a collection, for SQLite and PostgreSQL alike. Moments are ISO 8601 in UTC; structures are JSON."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself in a column of this type only."""


def _person() -> Column[str]:
    return Column("participant", Text, ForeignKey("participants.id"), nullable=False, index=True)


projects = Table(  # one row: two projects in one database would hand out and export each other's data
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
)

participants = Table(
    "participants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("strata", Text, nullable=False),
    Column("outside", Text, unique=True),  # keyed hash of the id on a crowd platform or in a product
    Column("consent", Text),
    Column("invited", Text),
    Column("started", Text),
    Column("completed", Text),
    Column("seen", Text),  # the day of the last answer, for retention
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),  # personal, or crowd for a link that many use
    Column("secret", Text, nullable=False),  # hashes only
    Column("code", Text, unique=True),
    Column("strata", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("expires", Text, nullable=False),
    Column("revoked", Text),
    Column("participant", Text, ForeignKey("participants.id"), index=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),  # the hash of what the cookie holds
    _person(),
    Column("invitation", Text, ForeignKey("invitations.id"), nullable=False, index=True),
    Column("expires", Text, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task", Text, nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("participant", Text, ForeignKey("participants.id"), index=True),  # whose own prompt it is
)

assignments = Table(
    "assignments",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    _person(),
    Column("task", Text, nullable=False),
    Column("item", Text, ForeignKey("items.id"), nullable=False, index=True),
    Column("repeat", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("shown", Text, nullable=False),
    Column("probability", Float),
    Column("created", Text, nullable=False),
    Index("uq_assignments_once", "participant", "item", "repeat", unique=True),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),  # made by the client, so that a retry is the same event
    _person(),
    Column("kind", Text, nullable=False),  # answer, undo or survey
    Column("task", Text, nullable=False),
    Column("item", Text, nullable=False),  # for a survey, the question
    Column("repeat", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Column("date", Text, nullable=False),
    sqlite_autoincrement=True,
)

exports = Table(
    "exports",
    metadata,
    Column("path", Text, primary_key=True),
    Column("date", Text, nullable=False),
)

erasures = Table(  # begun and perhaps not finished: the next command finishes them
    "erasures",
    metadata,
    Column("participant", Text, primary_key=True),
    Column("reason", Text, nullable=False),
)

receipts = Table(
    "receipts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("participant", Text, nullable=False),  # keyed hash
    Column("date", Text, nullable=False),
    Column("data", Text, nullable=False),
)
