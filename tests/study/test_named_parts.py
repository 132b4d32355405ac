"""Runs that name others as their parts may name none that lie elsewhere: reports read them, erasures write to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palate.downstream.steer._run import part_folder
from palate.downstream.steer._steer import STEER
from palate.records import PalateError
from palate.runs import Run, json_lines
from palate.study._run import CELLS, CellLine, finished
from palate.study._study import STUDY

ELSEWHERE = ("../private", "deeper/../../private", "..", "")


def table(folder: Path, experiment: Any) -> Run[Any]:
    """A run from a stranger, in a folder of runs, and one of one's own that lies elsewhere."""
    for name in ("runs/table", "runs/part/deeper", "private"):
        (folder / name).mkdir(parents=True)
    return Run(folder / "runs/table", None, experiment)


@pytest.mark.parametrize("name", [*ELSEWHERE, "absolute"])
def test_a_part_that_lies_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    run = table(tmp_path, STEER)
    with pytest.raises(PalateError, match="does not lie beside it"):
        part_folder(run, str(tmp_path / "private") if name == "absolute" else name)
    assert part_folder(run, "part") == tmp_path / "runs/part"


@pytest.mark.parametrize("name", [*ELSEWHERE, "absolute"])
def test_a_cell_that_lies_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    run = table(tmp_path, STUDY)
    named = str(tmp_path / "private") if name == "absolute" else name
    lines = [CellLine(cell="one", run="part/deeper"), CellLine(cell="two", run=named)]
    (run.folder / CELLS.name).write_bytes(b"".join(json_lines(lines[:1])))
    assert finished(run) == {"one": tmp_path / "runs/part/deeper"}
    (run.folder / CELLS.name).write_bytes(b"".join(json_lines(lines)))
    with pytest.raises(PalateError, match="does not lie beside it"):
        finished(run)
