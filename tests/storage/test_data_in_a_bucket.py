"""Benchmarks in a bucket, and what a store is refused for."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from buckets import CREDENTIALS, EVAL, Server, done, here, in_bucket, left_here, machine, workplace

from command import palate_process
from hub_server import serving
from palate import evaluate, load_benchmark
from palate.records import PalateError
from palate.storage import Store, folder_to_write_in, storing
from palate.storage._address import reading_root, storage_root


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "place" / "cache"))
    return workplace(tmp_path / "place")


def test_a_benchmark_goes_there_and_comes_back(place: Path, bucket: str) -> None:
    told = done(place, "data", "convert", "drinks", f"{bucket}/bench")
    assert told.stdout.startswith(f"{bucket}/bench: 6 users, 18 comparisons")
    assert in_bucket(f"{bucket}/bench") == here(place / "drinks")
    assert "0 errors" in done(place, "data", "check", f"{bucket}/bench").stdout
    own, there = load_benchmark(place / "drinks"), load_benchmark(f"{bucket}/bench")
    assert there.content_hash == own.content_hash and there.card == own.card
    done(place, "data", "convert", f"{bucket}/bench", "again")
    assert here(place / "again") == here(place / "drinks")
    words = ("--rm", "longest", "--view", "none", "--json")
    assert '"items":18' in done(place, "eval", f"{bucket}/bench", *words, "--out", f"{bucket}/runs").stdout
    assert not left_here() and not list(reading_root().iterdir())


def test_a_fault_in_a_bucket_is_told_by_its_address(place: Path, bucket: str) -> None:
    done(place, "data", "convert", "drinks", f"{bucket}/bench")
    Store(f"{bucket}/bench").put_bytes("comparisons.jsonl", b"{}\n")
    told = machine(place, "data", "check", f"{bucket}/bench")
    assert told.returncode == 2 and f"{bucket}/bench/comparisons.jsonl" in told.stdout
    assert str(storage_root()) not in told.stdout + told.stderr


def test_a_single_file_takes_its_options(bucket: str) -> None:
    row = b'{"annotator": "ann", "prompt": "Tea?", "chosen": "yes, please", "rejected": "no, thank you"}\n'
    Store(bucket).put_bytes("prefs.jsonl.gz", gzip.compress(row))
    assert list(load_benchmark(f"{bucket}/prefs.jsonl.gz,user=annotator").users) == ["ann"]


def test_memory_holds_runs_and_benchmarks(place: Path) -> None:
    url = f"memory://{place.parent.name}"
    done(place, "data", "convert", "drinks", f"{url}/bench")
    with storing():
        out = folder_to_write_in(f"{url}/runs")
        evaluate(f"{url}/bench", ["longest"], ["none"], out=out)
    assert b"longest" in next(text for name, text in in_bucket(f"{url}/runs").items() if name.endswith("ratings.jsonl"))
    assert not left_here()
    with pytest.raises(PalateError, match=r"within palate.storage.storing\(\)"):
        evaluate(f"{url}/bench", ["longest"], ["none"], out=out)
    with pytest.raises(PalateError, match=r"is no path. In Python"):
        evaluate(f"{url}/bench", ["longest"], ["none"], out=f"{url}/runs")


def test_a_bucket_that_cannot_be_written_is_refused_before_anything_is_measured(
    place: Path, bucket: str, s3_server: Server
) -> None:
    def refused(*words: str, **environment: str) -> str:
        told = machine(place, *words, **environment)
        assert told.returncode == 2 and told.stderr.startswith("palate: "), told.stderr
        assert "not-a-secret" not in told.stderr and "tester" not in told.stderr
        assert not (place / "runs").exists() and not left_here()
        return told.stderr

    assert "there is no bucket nowhere. Make it first" in refused(*EVAL, "--out", "s3://nowhere/runs")
    assert "palate knows s3://, gs://, hf://" in refused(*EVAL, "--out", "az://lab/runs")
    assert "name a bucket and a folder in it" in refused(*EVAL, "--out", "s3://lab/../runs")
    assert "palate reads hf:// and writes there with palate data push only" in refused(
        *EVAL, "--out", "hf://datasets/lab/runs"
    )
    assert "--cluster needs an --out" in refused(*EVAL, "--cluster", "ray", "--out", f"{bucket}/runs")
    assert "expected a path on this machine" in refused("study", f"{bucket}/plan.toml")
    assert "is no such file or folder" in refused("data", "check", f"{bucket}/nothing")
    assert "is not a run" in refused("report", f"{bucket}/nothing", "--repair")
    s3_server.permit("0")
    assert "these credentials do not permit it" in refused(*EVAL, "--out", f"{bucket}/runs")
    s3_server.permit("inf")
    assert not in_bucket(bucket)


def test_missing_credentials_packages_and_servers_are_told_in_a_sentence(
    place: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    connected = type(Store(bucket)._fs)
    request.addfinalizer(connected.clear_instance_cache)

    def refused() -> str:
        connected.clear_instance_cache()  # as in a new process
        told = machine(place, *EVAL, "--out", f"{bucket}/runs")
        assert told.returncode == 2 and told.stderr.count("\n") == 1, told.stderr
        return told.stderr

    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        patch.setattr(connected, "retries", 1)
        assert "the store does not answer. Check the network" in refused()
    with monkeypatch.context() as patch:
        for name in CREDENTIALS:
            patch.delenv(name)
        patch.setenv("HOME", str(place))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        assert "no credentials were found" in refused()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules["fsspec.registry"]._registry, "s3")
        patch.setitem(sys.modules, "s3fs", None)
        assert "s3:// needs a package: pip install 'palate[storage]'" in refused()


def test_names_that_lead_elsewhere_are_refused(place: Path, bucket: str) -> None:
    Store(bucket)._fs.call_s3("put_object", Bucket=bucket[5:], Key="bench/../../../escaped", Body=b"x")
    with pytest.raises(PalateError, match="holds an object whose name is no path below it"):
        load_benchmark(f"{bucket}/bench")
    assert not list(place.rglob("escaped"))


def test_a_benchmark_on_the_hub_is_read_there(place: Path) -> None:
    pytest.importorskip("huggingface_hub")
    files = {f"bench/{name}": content for name, content in here(place / "drinks").items()}
    with serving({"datasets/lab/drinks": files}) as hub:
        words = ("data", "convert", "hf://datasets/lab/drinks/bench", "again")
        settings = {"HF_ENDPOINT": hub, "HF_HOME": str(place / "hf"), "HF_HUB_DISABLE_XET": "1"}
        told = palate_process(*words, cwd=place, **settings)
    assert told.returncode == 0, told.stderr
    assert here(place / "again") == here(place / "drinks")
