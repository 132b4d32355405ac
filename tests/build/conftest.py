"""What the tests of builds share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dumps import accepted_plan, write_dump

from palate.build import build


@contextmanager
def _keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_PSEUDONYM_KEY", "a key that only the tests know")
        patch.setenv("SCRIPTED_KEY", "none")
        yield


@pytest.fixture(scope="module", autouse=True)
def keys() -> Iterator[None]:
    """A key for pseudonyms and for the scripted server."""
    with _keys():
        yield


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache of answers that no other test has written to."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dump, a plan, the build and the finished benchmark `coffee`."""
    folder = tmp_path_factory.mktemp("built")
    write_dump(folder)
    with _keys():
        build(accepted_plan(folder), to=folder / "coffee", out=folder / "runs")
    return folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(built_once, tmp_path / "built")
