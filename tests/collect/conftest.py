"""A real PostgreSQL of one's own, and collections on either database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from collection import Collection, make_collection
from postgres_server import postgres_server, why_not


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of one's own: on a machine one process erases at a time."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that listens on a socket in a folder of its own."""
    if missing := why_not():
        pytest.skip(missing)
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'collect.sqlite'}"
        return
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture
def collection(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    """The example of pairs, on each database."""
    monkeypatch.setenv("PALATE_COLLECT_DATABASE", database)
    with make_collection(tmp_path / "study", "compare") as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Collection]:
    """The example of pairs on SQLite, for what does not depend on the database."""
    with make_collection(tmp_path / "study", "compare") as made:
        yield made
