"""Buckets and addresses that mean harm: names that are no files, keys where an address is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import CREDENTIALS, done, machine, workplace

from command import palate, palate_process
from palate.storage import Store

KEYED = ("s3://NAME:SECRET@lab/runs", "s3://NAME:SEC/RET@lab/runs", "https://ann:SECRET@host/x?Signature=RET")


def test_an_object_and_a_folder_of_one_name_are_refused(tmp_path: Path, bucket: str) -> None:
    place = workplace(tmp_path / "place")
    done(place, "eval", "drinks", "--rm", "longest", "--view", "none", "--out", f"{bucket}/runs")
    run = next(name for name in Store(f"{bucket}/runs").objects() if name.endswith("/settings.json")).split("/")[0]
    store = Store(f"{bucket}/runs/{run}")
    store.put_bytes("ratings.jsonl/deeper/x", b"{}")
    for words in (("report", store.url), ("forget", "drinker-1", "--run", store.url)):
        told = machine(place, *words)
        assert told.returncode == 2, told.stderr
        assert "holds ratings.jsonl and ratings.jsonl/deeper/x" in told.stderr


@pytest.mark.parametrize("url", KEYED)
def test_keys_in_an_address_are_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    pytest.importorskip("s3fs", reason="buckets need .[storage]")
    for words in (("report", url), ("eval", "mini", "--rm", "longest", "--out", url), ("eval", url, "--rm", "longest")):
        told = palate(*words, cwd=tmp_path)
        assert told.returncode == 2
        assert "SEC" not in told.stdout + told.stderr and "RET" not in told.stdout + told.stderr


def test_keys_in_an_endpoint_are_not_shown() -> None:
    pytest.importorskip("s3fs", reason="buckets need .[storage]")
    told = palate_process("report", "s3://lab/runs", **CREDENTIALS, AWS_ENDPOINT_URL="ftp//ann:SECRET@127.0.0.1")
    assert told.returncode == 2
    assert "SECRET" not in told.stderr and "[keys]@127.0.0.1" in told.stderr
