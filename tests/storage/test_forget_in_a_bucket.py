"""Erasing a user from a bucket, from working copies that were left, and from nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import pytest
from buckets import EVAL, done, in_bucket, machine, workplace

from palate.records import unfinished_erasures
from palate.storage import Remote, StorageError, Store
from palate.storage._address import reading_root, working_path
from palate.storage._copy import WorkingCopy

ANN = "drinker-1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "place" / "cache"))
    return workplace(tmp_path / "place")


def measured(place: Path, bucket: str) -> str:
    """A run, its shards and its benchmark in the bucket; the address of the run."""
    done(place, "data", "convert", "drinks", f"{bucket}/bench")
    for number in (1, 2):
        done(place, *EVAL, "--shard", f"{number}/2", "--out", f"{bucket}/runs")
    done(place, "merge", f"{bucket}/runs/shard-*-of-2", "--out", f"{bucket}/runs")
    run = next(name for name in in_bucket(f"{bucket}/runs") if name.startswith("drinks-"))
    return f"{bucket}/runs/{run.partition('/')[0]}"


def holding(bucket: str) -> set[str]:
    """The objects that name the user."""
    return {name for name, content in in_bucket(bucket).items() if ANN.encode() in content}


def test_a_user_is_erased_from_objects(place: Path) -> None:
    bucket = f"memory://{place.parent.name}"
    run = measured(place, bucket)
    before = in_bucket(bucket)
    words = ("forget", ANN, "--run", run, "--data", f"{bucket}/bench")
    would = done(place, *words, "--dry-run")
    assert f"run {run}" in would.stdout and in_bucket(bucket) == before
    told = done(place, *words, "--receipt", "receipt.json")
    assert not holding(bucket) and b"drinker-2" in b"".join(in_bucket(bucket).values())
    assert f"{bucket}/runs/shard-1-of-2" in told.stdout and "old versions" not in told.stdout
    receipt = msgspec.json.decode((place / "receipt.json").read_bytes())
    assert {one["path"].partition("://")[0] for one in receipt["places"] if one["kind"] in ("run", "benchmark")} == {
        "memory"
    }
    checked = done(place, "forget", ANN, "--check", "receipt.json", "--json")
    assert msgspec.json.decode(checked.stdout)["found"] == []
    Store(f"{bucket}/bench").put_bytes("users.jsonl", before["bench/users.jsonl"])
    again = machine(place, "forget", ANN, "--check", "receipt.json")
    assert again.returncode == 2 and f"{bucket}/bench/users.jsonl: the id " in again.stdout


def test_old_versions_are_told(place: Path, bucket: str) -> None:
    done(place, "data", "convert", "drinks", f"{bucket}/bench")
    words = ("forget", ANN, "--data", f"{bucket}/bench")
    assert "old versions" not in done(place, *words, "--dry-run").stdout
    store = Store(bucket)
    store._fs.call_s3("put_bucket_versioning", Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    told = done(place, *words)
    assert f"{bucket}/bench: the bucket keeps old versions of objects" in told.stdout
    assert not holding(bucket)


def test_an_erasure_that_could_not_be_uploaded_is_finished_by_the_next_command(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"memory://{place.parent.name}"
    run = measured(place, bucket)
    put, left = Store.put, iter(range(3))

    def some(self: Store, name: str, stream: IO[bytes], size: int, beat: Callable[[], None]) -> Remote:
        if next(left, None) is None:
            raise StorageError("the store is gone.")
        return put(self, name, stream, size, beat)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", some)
        told = machine(place, "forget", ANN, "--run", run, "--data", f"{bucket}/bench")
    assert told.returncode == 2 and "the store is gone. The erasure is written down" in told.stderr, told.stderr
    assert holding(bucket) and unfinished_erasures()
    told = done(place, "runs", f"{bucket}/runs")
    assert "finished the erasure" in told.stderr
    assert not holding(bucket) and not unfinished_erasures()


def test_what_stopped_processes_left_here_is_erased_too(place: Path) -> None:
    bucket = f"memory://{place.parent.name}"
    run = measured(place, bucket)
    left = WorkingCopy(working_path(run))
    os.close(left._lock)  # as the system does with a process that is gone
    abandoned = reading_root() / "abandoned"
    abandoned.mkdir(parents=True)
    (abandoned / ".lock").touch()
    (abandoned / "users.jsonl").write_text(ANN)
    merging = left.folder.with_name(".merging-" + left.folder.name)
    merging.mkdir()
    assert ANN in (left.folder / "items.jsonl").read_text()
    done(place, "data", "export-user", "drinks", ANN, "--output", "user.json")
    assert f"{run}/items.jsonl" in (place / "user.json").read_text()
    told = done(place, "forget", ANN, "--data", "drinks")
    assert f"the working copy {left.folder} was left by a process" in told.stdout
    assert f"name it, too: --run {run}" in told.stdout
    assert ANN not in (left.folder / "items.jsonl").read_text() and not abandoned.exists() and not merging.exists()
    assert holding(run)
    done(place, "forget", "drinker-2", "--run", run)  # uploads what this machine had erased before
    assert not holding(run)
