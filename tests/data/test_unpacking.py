"""A small file that unpacks to a huge one is refused before it fills the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from palate.data import load_benchmark, unpack
from palate.privacy._rewrite_lines import read_rows
from palate.privacy._traces import TraceSearch
from palate.records import PalateError


@pytest.fixture
def bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_MAX_UNPACKED_MB", "1")
    file = tmp_path / "comparisons.jsonl.gz"
    file.write_bytes(gzip.compress(b" " * 3_000_000))
    return file


def test_every_reader_refuses_it_and_says_how_to_allow_it(bomb: Path) -> None:
    says = "unpacks to more than 1 MB.*PALATE_MAX_UNPACKED_MB"
    for read in (
        lambda: load_benchmark(bomb),
        lambda: load_benchmark(bomb.parent),
        lambda: read_rows(bomb),
        lambda: TraceSearch("ann", [], None).file(bomb),  # type: ignore[arg-type]
    ):
        with pytest.raises(PalateError, match=says):
            read()


def test_without_a_setting_the_limit_grows_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palate.data._unpack.ALWAYS", 1)
    honest = gzip.compress("".join(f"{number * 7919 % 10007} " for number in range(700_000)).encode())
    assert len(unpack(honest, Path("honest.gz"))) > 3_000_000
    with pytest.raises(PalateError, match="unpacks to more than 1 MB"):
        unpack(gzip.compress(b" " * 3_000_000), Path("bomb.gz"))


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PALATE_MAX_UNPACKED_MB", value)
    with pytest.raises(PalateError, match="whole number of megabytes"):
        unpack(gzip.compress(b""), Path("a.gz"))


def test_parquet_is_asked_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"prompt": [f"{number}" * 40 for number in range(100_000)]}),
        tmp_path / "bomb.parquet",
        use_dictionary=False,
    )
    monkeypatch.setenv("PALATE_MAX_UNPACKED_MB", "1")
    with pytest.raises(PalateError, match="unpacks to more than 1 MB"):
        load_benchmark(tmp_path / "bomb.parquet")
