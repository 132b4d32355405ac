"""Runs on a real Ray: whatever dies, the folder is that of one process, byte for byte."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from command import palate, palate_process
from palate.data import write_benchmark
from palate.records import PalateError
from palate.runs import FINISHED, REPORTS, SPENT, _cluster
from runs.test_shards import CRITIC, VIEWS, letters
from tiny_models import TinyModels

ray = pytest.importorskip("ray", reason="--cluster needs .[cluster]")

MODELS = """
import os, random, signal, time
from pathlib import Path
from palate import Rating


class Mortal:
    name = "mortal"
    batch_size = 2
    fingerprint = "1"

    def __init__(self):
        if Path("loads").is_dir():
            Path("loads", f"{os.getpid()}-{time.monotonic_ns()}").touch()
        self.left = random.randint(1, 6)

    def rate(self, asks):
        while Path("wait").is_file():
            time.sleep(0.02)
        self.left -= 1
        if not self.left and Path("deaths").is_dir() and len(os.listdir("deaths")) < 6:
            Path("deaths", str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [
            Rating(unscored="too long") if "rain" in ask.responses[0]
            else Rating([len(text) + len(ask.view.text) for text in ask.responses])
            for ask in asks
        ]


class Doomed(Mortal):
    def rate(self, asks):
        os.kill(os.getpid(), signal.SIGKILL)


class Forgetful(Mortal):
    def rate(self, asks):
        raise MemoryError("no room for the weights")
"""
EVAL = ("eval", "letters", "--rm", "./mine.py:Mortal", *VIEWS)


def place(tmp_path: Path, name: str, *folders: str) -> Path:
    folder = tmp_path / name
    for one in (".", *folders):
        (folder / one).mkdir(parents=True)
    (folder / "mine.py").write_text(MODELS)
    write_benchmark(letters(), folder / "letters")
    return folder


def run(folder: Path, *words: str | Path) -> None:
    done = palate(*words, cwd=folder, PALATE_CACHE=str(folder / "cache"))
    assert done.returncode == 0, done.stderr


def refusal(folder: Path, *words: str | Path) -> str:
    done = palate(*words, cwd=folder)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return " ".join(done.stderr.split())


def files(runs: Path) -> dict[str, bytes]:
    """All files of a folder of runs but the shards, what makes the same command quicker, and what it cost."""
    costs = (FINISHED, SPENT, *REPORTS)
    return {
        str(file.relative_to(runs)): file.read_bytes()
        for file in sorted(runs.rglob("*"))
        if file.is_file() and not file.relative_to(runs).parts[0].startswith("shard-") and file.name not in costs
    }


def test_workers_that_are_killed_at_random_change_no_byte(local_ray: None, tmp_path: Path) -> None:
    one, many = place(tmp_path, "one"), place(tmp_path, "many", "deaths", "loads")
    run(one, *EVAL)
    run(many, *EVAL, "--cluster", "ray", "--workers", "2")
    assert len(list((many / "deaths").iterdir())) == 6
    assert files(many / "runs") == files(one / "runs")
    assert len(list((many / "runs").glob("shard-*-of-6"))) == 6  # more shards than workers, one user at least in each
    assert not list((many / "runs").rglob("progress.json")) and not list((many / "runs").glob(".probe*"))
    loads = [file.name.partition("-")[0] for file in (many / "loads").iterdir()]
    assert len(loads) == len(set(loads))  # a worker loads a model once
    run(many, *EVAL, "--cluster", "ray", "--workers", "1")  # the same shards with another number of workers
    assert files(many / "runs") == files(one / "runs") and not list((many / "runs").glob("shard-*-of-4"))


def test_steering_with_all_its_parts_is_that_of_one_process(
    local_ray: None, tmp_path: Path, tiny_models: TinyModels
) -> None:
    """Its parts are runs of eval, bon and guide."""
    pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
    words = ["steer", "letters", "--rm", "./mine.py:Mortal", *VIEWS, *CRITIC, "--policy", tiny_models.causal()]
    words += ["-n", "2", "--tokens", "3"]
    one, many = place(tmp_path, "one"), place(tmp_path, "many", "deaths", "loads")
    for death in range(5):
        (many / "deaths" / f"before-{death}").touch()  # one more is enough: each worker loads torch again
    run(one, *words)
    run(many, *words, "--cluster", "ray", "--workers", "2")
    assert len(list((many / "deaths").iterdir())) >= 6
    assert files(many / "runs") == files(one / "runs")


def test_a_shard_that_always_kills_its_worker_ends_the_run(local_ray: None, tmp_path: Path) -> None:
    folder = place(tmp_path, "doomed")
    said = refusal(folder, "eval", "letters", "--rm", "./mine.py:Doomed", "--cluster", "ray", "--workers", "1")
    assert "5 workers died" in said and "out of memory" in said and "is kept" in said


def test_what_a_worker_refuses_is_said(local_ray: None, tmp_path: Path) -> None:
    folder = place(tmp_path, "refused")
    on_ray = ("--cluster", "ray", "--workers", "1")
    assert "Did you mean 'longest'?" in refusal(folder, "eval", "letters", "--rm", "longst", *on_ray)
    said = refusal(folder, "eval", "letters", "--rm", "./mine.py:Forgetful", *on_ray)
    assert "no room for the weights" in said and "Out of memory: take fewer --workers" in said
    said = refusal(folder, "eval", "letters", "--rm", "classifier:./nowhere", *on_ray)
    assert "the worker on" in said and "nowhere" in said


def test_other_versions_and_folders_that_are_not_shared_are_refused(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place(tmp_path, "here")
    with monkeypatch.context() as patch:
        patch.setattr(_cluster, "environment", lambda: {"python": "3.10.0", "torch": "1.0"})
        said = refusal(folder, *EVAL, "--cluster", "ray", "--workers", "1")
        assert "different versions" in said and "torch 1.0 and" in said
    with monkeypatch.context() as patch:  # what this process writes is not what the worker sees
        patch.setattr(_cluster, "write_whole", lambda file, content: file.write_bytes(b"another"))
        assert "sees another" in refusal(folder, *EVAL, "--cluster", "ray", "--workers", "1")
    assert not list((folder / "runs").glob("letters-*"))


def test_a_worker_without_the_folder_or_with_another_palate_is_told_of() -> None:
    """Both by what Ray hands over, since all workers of a test are on this machine."""
    job = _cluster.Job(work=None, folder="/nowhere", out="runs", probe="", secret="", variables={}, command="")
    told = _cluster.Worker(job)._fault()
    assert told is not None and "cannot work in /nowhere" in told and "All machines need the folder" in told
    for said, reason in {
        "ModuleNotFoundError: No module named 'palate'": "a worker has no palate",
        "ModuleNotFoundError: No module named 'palate.study._hands'": "another version of palate",
        "Can't get attribute 'Worker.do' on <module 'palate.runs._cluster'>": "another version of palate",
    }.items():
        with pytest.raises(PalateError, match=reason):
            _cluster._require_palate(RuntimeError(said))
    _cluster._require_palate(RuntimeError("the node was lost"))


def test_options_that_make_no_sense_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place(tmp_path, "options")
    assert "leave out --shard" in refusal(folder, *EVAL, "--cluster", "ray", "--shard", "1/2")
    assert "add --cluster ray" in refusal(folder, *EVAL, "--workers", "2")
    assert "--workers is a number from 1" in refusal(folder, *EVAL, "--cluster", "ray", "--workers", "0")
    assert "write ray for workers on this machine" in refusal(folder, *EVAL, "--cluster", "slurm")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'palate[cluster]'" in refusal(folder, *EVAL, "--cluster", "ray")


def test_where_no_cluster_answers_it_says_what_to_start(tmp_path: Path) -> None:
    """In a process of its own, which is in no cluster."""
    folder = place(tmp_path, "nowhere")
    done = palate_process(*EVAL, "--cluster", "ray://127.0.0.1:1", cwd=folder)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "no Ray cluster answers at ray://127.0.0.1:1" in said and "ray start --head" in said
    assert not list((folder / "runs").iterdir())  # nothing was begun


def test_a_lost_machine_changes_no_byte(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    one, many = place(tmp_path, "one"), place(tmp_path, "many")
    run(one, *EVAL)
    (many / "wait").touch()  # nobody rates before the machine is gone
    room = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    try:
        second = cluster.add_node(**room)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")

        def lose() -> None:
            while len(list((many / "runs").glob("shard-*/letters-*/settings.json"))) < 2:
                time.sleep(0.05)
            cluster.remove_node(second, allow_graceful=False)
            (many / "wait").unlink()

        loser = threading.Thread(target=lose, daemon=True)
        loser.start()
        run(many, *EVAL, "--cluster", "auto", "--workers", "2")
        loser.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert files(many / "runs") == files(one / "runs")
