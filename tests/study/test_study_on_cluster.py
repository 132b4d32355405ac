"""`palate study --cluster` on a real Ray: whatever dies, the folder is that of one process, byte for byte."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from plans import VIEW, best_of, guided, model, ppo, predictor, trained

import command
from palate.runs import SPENT, _cluster
from palate.study import StudySummary
from tiny_models import TinyModels

pytest.importorskip("ray", reason="--cluster needs .[cluster]")

KILLS = 10
ON_RAY = ("--cluster", "ray", "--workers", "2")
PLUG_INS = """
import os, time
from pathlib import Path
from palate import Rating


class Slow:
    name = "slow"
    fingerprint = "1"
    batch_size = 1

    def rate(self, asks):
        time.sleep(0.1)
        return [Rating(scores=[len(text) for text in ask.responses]) for ask in asks]


class Shy(Slow):
    name = "shy"

    def rate(self, asks):
        raise ValueError("not today")


class Full(Slow):
    name = "full"

    def rate(self, asks):
        raise MemoryError("no room for the weights")


class Doomed(Slow):
    name = "doomed"

    def rate(self, asks):
        os._exit(7)
"""


@pytest.fixture(scope="module")
def policy(tiny_models: TinyModels) -> str:
    return f"{tiny_models.causal()},device=cpu"


def place(tmp_path: Path, name: str, plan: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "own.py").write_text(PLUG_INS)
    (folder / "plan.toml").write_text(plan)
    return folder


def studied(folder: Path, *words: str) -> StudySummary:
    done = command.palate("study", "plan.toml", "--json", *words, cwd=folder, PALATE_CACHE=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{"), (done.stdout[:2000], done.stderr)
    return msgspec.json.decode(done.stdout, type=StudySummary)


def refusal(folder: Path, *words: str) -> str:
    done = command.palate("study", "plan.toml", *words, cwd=folder)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return " ".join(done.stderr.split())


def run_files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The ledgers of all runs but studies, with the time at which they were written last."""
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.glob("runs/sim-*/*.jsonl")
    }


def require_same_files(one: Path, other: Path) -> None:
    """Every file there is, once both have the same seconds: these have files of their own, of which reports tell."""
    for file in one.glob("runs/*/seconds.jsonl"):  # of the study, and of what is trained
        shutil.copy(file, other / file.relative_to(one))
    found: list[dict[str, bytes]] = []
    for folder in (one, other):
        for file in folder.glob(f"runs/**/{SPENT}"):
            file.unlink()
        [run] = folder.glob("runs/plan-study-*")
        assert command.palate("report", str(run.relative_to(folder)), cwd=folder).returncode == 0
        files = [file for file in (folder / "runs").rglob("*") if file.is_file()]
        found.append({str(file.relative_to(folder)): file.read_bytes() for file in files})
    assert found[0].keys() == found[1].keys()
    assert {name for name in found[0] if found[0][name] != found[1][name]} == set()
    assert len(found[0]) > 30 and any(name.endswith("report.html") for name in found[0])


class Killer(threading.Thread):
    """Kills workers at random while they are at a cell; none so often that the cell would be given up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._draw, self._calm = folder, random.Random(7), threading.Event()
        self.kills: Counter[str] = Counter()

    def run(self) -> None:
        while self.kills.total() < KILLS and not self._calm.is_set():
            time.sleep(self._draw.random() * 0.3)
            notes = [one for one in self._folder.glob("runs/plan-study-*/.*.json") if one.name != ".running.json"]
            notes = [note for note in notes if self.kills[note.name] < _cluster.MAX_DEATHS - 1]
            if not notes:
                continue
            note = self._draw.choice(notes)
            with suppress(OSError, msgspec.DecodeError):
                worker = msgspec.json.decode(note.read_bytes(), type=_cluster.Note)
                os.kill(worker.pid, signal.SIGKILL)
                self.kills[note.name] += 1
                time.sleep(0.5)  # until it is noticed

    def stop(self) -> None:
        self._calm.set()
        self.join()


def test_workers_that_are_killed_at_random_change_no_byte(local_ray: None, tmp_path: Path, policy: str) -> None:
    text = model("./own.py:Slow", name="slow") + model("sim", VIEW) + model("./own.py:Shy", name="shy") + trained("t")
    text += predictor() + predictor("few", limit=9) + best_of(policy, in_context=["oracle"]) + guided(policy)
    text += ppo(policy, models=["sim"], seeds=[0, 1])
    one, many = place(tmp_path, "one", text), place(tmp_path, "many", text)
    before = studied(one)
    killer = Killer(many)
    killer.start()
    after = studied(many, *ON_RAY)
    killer.stop()
    assert killer.kills.total() == KILLS, killer.kills
    assert [one.cell for one in after.unfinished] == [
        f"{name} | shy" for name in ("bench", "few", "best of 3", "guided")
    ]
    assert after.unfinished == before.unfinished and "not today" in after.unfinished[0].reason
    require_same_files(one, many)


def test_one_more_model_runs_only_what_is_new(local_ray: None, tmp_path: Path) -> None:
    text = model("./own.py:Slow", name="slow") + model("random") + predictor() + predictor("few", limit=9)
    folder = place(tmp_path, "more", text)
    assert studied(folder, *ON_RAY).complete
    before = run_files(folder)
    (folder / "plan.toml").write_text(text + model("longest"))
    assert studied(folder, *ON_RAY).complete
    after = run_files(folder)
    assert before.items() <= after.items()
    assert len({name.split("/")[1] for name in after.keys() - before.keys()}) == 2  # the new model's


def test_a_cell_that_kills_or_fills_its_worker_fails_alone(local_ray: None, tmp_path: Path) -> None:
    text = "".join(model(f"./own.py:{name}", name=name.lower()) for name in ("Doomed", "Full", "Slow")) + predictor()
    folder = place(tmp_path, "doomed", text)
    doomed, full = studied(folder, *ON_RAY).unfinished
    assert doomed.cell == "bench | doomed" and "5 workers died, one after another" in doomed.reason
    assert "out of memory" in doomed.reason
    assert full.cell == "bench | full" and "no room for the weights" in full.reason
    [run] = folder.glob("runs/plan-study-*")
    assert not list(run.glob(".*"))


def test_what_cannot_be_is_refused(local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place(tmp_path, "refused", model("random") + model("longest") + predictor())
    assert "leave out --at-once" in refusal(folder, *ON_RAY, "--at-once", "2")
    assert "--shard" in refusal(folder, *ON_RAY, "--shard", "1/2")
    assert "add --cluster ray" in refusal(folder, "--workers", "2")
    assert "--workers is a number from 1" in refusal(folder, "--cluster", "ray", "--workers", "0")
    assert "write ray for workers on this machine" in refusal(folder, "--cluster", "slurm")
    assert not list(folder.glob("runs/sim-*"))
    with monkeypatch.context() as patch:
        patch.setattr(_cluster, "environment", lambda: {"python": "3.10.0", "torch": "1.0"})
        said = refusal(folder, *ON_RAY)
        assert "different versions" in said and "torch 1.0 and" in said
    with monkeypatch.context() as patch:  # what this process writes is not what the worker sees
        patch.setattr(_cluster, "write_whole", lambda file, content: file.write_bytes(b"another"))
        assert "sees another" in refusal(folder, *ON_RAY)
    assert not list(folder.glob("runs/sim-*")) and not list(folder.glob("runs/*/.running.json"))
    assert not list(folder.glob("runs/.probe*"))
    assert studied(folder, *ON_RAY).complete


def test_killed_with_its_workers_it_goes_on(tmp_path: Path, policy: str) -> None:
    """The command in a process of its own, with a Ray of its own; a second one beside it is refused and told of it."""
    text = model("./own.py:Slow", name="slow") + model("sim", VIEW) + trained("t") + predictor() + best_of(policy)
    one, many = place(tmp_path, "one", text), place(tmp_path, "many", text)
    studied(one)
    begun = subprocess.Popen(
        [sys.executable, "-m", "palate", "study", "plan.toml", "--json", *ON_RAY], cwd=many, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PALATE_CACHE": str(many / "cache")},
    )  # fmt: skip
    deadline = time.monotonic() + command.GUARD
    while begun.poll() is None and time.monotonic() < deadline and not list(many.glob("runs/sim-*/ratings.jsonl")):
        time.sleep(0.02)
    said = refusal(many, *ON_RAY)
    assert f"process {begun.pid} on {socket.gethostname()}" in said
    begun.kill()
    begun.communicate()
    assert begun.returncode == -signal.SIGKILL
    studied(many, *ON_RAY)
    require_same_files(one, many)
