"""Lines that a repair set aside may be anybody's: they are never kept from whoever is forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from people import people

from palate.data import Pseudonyms, write_benchmark
from palate.privacy import export_user, forget
from palate.records import PalateError
from palate.runs import repair_run

KEY = Pseudonyms(b"a key that only this test knows")
FILES = ["rated/parts.jsonl", "best/samples.jsonl", "trained/held_out.jsonl"]


@pytest.fixture
def runs(every_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(every_run, tmp_path / "runs")
    return tmp_path / "runs"


def tear(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"text":"It is chess that bo likes\n'
    file.write_bytes(b"".join(lines))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", FILES)
def test_nobody_is_forgotten_or_exported_from_a_damaged_run(runs: Path, tmp_path: Path, name: str) -> None:
    tear(runs / name)
    write_benchmark(people(), tmp_path / "data")
    before = contents(tmp_path)
    run = (runs / name).parent
    for command in (
        lambda: forget("bo", KEY, data=[tmp_path / "data"], runs=[run]),
        lambda: export_user(people(), "bo", runs=[run]),
    ):
        with pytest.raises(PalateError, match=rf"{Path(name).name}, line 3: .*--repair"):
            command()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", FILES[:2])
def test_lines_that_were_set_aside_are_emptied_and_still_counted(runs: Path, name: str) -> None:
    tear(runs / name)
    run = (runs / name).parent
    assert repair_run(run)
    beside = runs / f"{name}.bad"
    held = beside.read_bytes().count(b"\n")
    assert b"chess" in beside.read_bytes()
    exported = export_user(people(), "bo", runs=[run])
    assert any(f"{beside}: {held} lines cannot be read" in note for note in exported.notes)
    receipt = forget("bo", KEY, runs=[run])
    assert beside.read_bytes() == b"\n" * held
    [place] = [place for place in receipt.places if place.path == str(run)]
    assert place.erased["lines that could not be read"] >= held
    assert str(beside) in [change.path for change in place.files]
    assert not any(".bad" in reason for reason in place.left)
