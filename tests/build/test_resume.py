"""A build that is killed at any stage goes on where it was, and comes to the same bytes."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from dumps import accepted_plan, write_dump, write_plan
from scripted import Scripted, scripted_server
from test_generated import PLAN, script

from command import GUARD, palate
from palate.build import build

DIE = """
import importlib, os, signal, sys
from palate.cli import main
module, name, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
owner = importlib.import_module(module)
*path, name = name.split(".")
for part in path:
    owner = getattr(owner, part)
real = getattr(owner, name)
def dying(*arguments, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)
setattr(owner, name, dying)
main(sys.argv[4:])
"""
PLACES = {
    "reading the dump": ("palate.build._index", "_Batch.flush", 1),
    "choosing": ("palate.build._index", "Index._keep_history", 0),
    "reading texts": ("palate.build._index", "Index.read_texts", 0),
    "writing the selection": ("palate.build._select", "write_whole", 2),
    "asking for rubrics": ("palate.build._generate", "StageContext.ask", 0),
    "writing candidates": ("palate.runs._run", "RunWriter.add", 3),
    "filtering": ("palate.build._filter", "_judge_blind", 0),
    "measuring the gate": ("palate.build._gate", "_position", 0),
    "writing the benchmark": ("palate.build._card", "write_whole", 1),
}


class Workshop(NamedTuple):
    plan: Path
    server: Scripted
    whole: Path
    ledgers: Path


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, keys: None) -> Iterator[Workshop]:
    """A plan, the server that it names, and what it comes to when nobody interrupts it."""
    folder = tmp_path_factory.mktemp("workshop")
    write_dump(folder)
    with scripted_server(script({})) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(folder / "cache"))
        text = PLAN.format(model=server.spec(), contrasts='["avoid", "twins"]', personal="false")
        plan = write_plan(folder / "plan.toml", text)
        build(plan, to=folder / "whole", out=folder / "runs")
        [run] = (folder / "runs").iterdir()
        yield Workshop(plan, server, folder / "whole", run)


@pytest.mark.parametrize("place", PLACES)
def test_a_build_that_is_killed_resumes_to_the_same_bytes(tmp_path: Path, workshop: Workshop, place: str) -> None:
    workshop.server.asked.clear()
    module, name, calls = PLACES[place]
    words = ["build", str(workshop.plan), "--to", "killed"]
    command = [sys.executable, "-c", DIE, module, name, str(calls), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert palate(*words, cwd=tmp_path).returncode == 0
    assert len(set(workshop.server.asked)) == len(workshop.server.asked)  # no answer was asked for twice
    files = sorted(file.name for file in workshop.whole.iterdir())
    assert sorted(file.name for file in (tmp_path / "killed").iterdir()) == files
    for file in files:
        assert content(tmp_path / "killed" / file) == content(workshop.whole / file)
    [run] = tmp_path.glob("runs/*")
    for ledger in ("items", "posts", "rubrics", "candidates", "verdicts"):
        assert (run / f"{ledger}.jsonl").read_bytes() == (workshop.ledgers / f"{ledger}.jsonl").read_bytes()
    assert not (run / "index.sqlite").exists()


def content(file: Path) -> str:
    """What a build spent depends on the answers that were there already; all else does not."""
    return re.sub(r"- Spent on .*\n", "", file.read_text())


FULL = """
import resource, sys
from palate.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
main(sys.argv[2:])
"""


def test_a_full_disk_ends_a_build_in_a_sentence_and_room_lets_it_resume(tmp_path: Path) -> None:
    write_dump(tmp_path)
    plan = accepted_plan(tmp_path)
    build(plan, to=tmp_path / "whole", out=tmp_path / "runs-whole")
    words = ["build", str(plan), "--to", "killed"]
    for room in (4_000, 20_000, 50_000):
        command = [sys.executable, "-c", FULL, str(room), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=GUARD)
        assert done.returncode == 2 and "Traceback" not in done.stderr, (room, done.stderr)
    assert palate(*words, cwd=tmp_path).returncode == 0
    for file in (tmp_path / "whole").iterdir():
        assert content(tmp_path / "killed" / file.name) == content(file)


def test_a_disk_that_is_full_when_ledgers_are_written_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dump(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("palate.build._select.write_whole", full)
    done = palate("build", accepted_plan(tmp_path), cwd=tmp_path)
    assert done.returncode == 2 and "No space left on device. What was finished before is kept" in done.stderr
