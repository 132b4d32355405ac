"""A large table stays on the disk, and nobody can tell by what is measured."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palate.data._tables
import palate.runs._ledger
from palate import evaluate
from palate.data import OnDisk, check_benchmark, load_benchmark
from palate.data._on_disk import Buckets
from palate.personal import make_folds
from palate.records import Benchmark, PalateError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
COLUMNS = "user_id,prompt,chosen,rejected,category,date\n"


def table(
    folder: Path,
    *,
    date: str = "20{0:02d}-01-0{1}",
    chosen: Callable[[int], str] = lambda number: f"Answer {number % 20} with more words than a few of them say",
) -> Path:
    """Choices of a few people who come back, some of which hold what others hold."""
    file = folder / "table.csv"
    rows = [
        f"u{number % 7},What of {number // 3}?,{chosen(number)},"
        f"No {number},topic {number % 3},{date.format(number % 20, 1 + number % 9)}\n"
        for number in range(60)
    ]
    file.write_text(COLUMNS + "".join(rows))
    return file


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large."""
    monkeypatch.setattr(palate.data._tables, "MOST_HELD", 300)
    monkeypatch.setattr(palate.runs._ledger, "MOST_HELD", 0)


@pytest.mark.parametrize("date", ["20{0:02d}-01-0{1}", "20{0:02d}", ""])
def test_a_benchmark_on_the_disk_is_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, date: str
) -> None:
    file = table(tmp_path, date=date)
    held = load_benchmark(file)
    monkeypatch.setattr(palate.data._tables, "MOST_HELD", 300)
    on_disk = load_benchmark(file)
    assert isinstance(held.comparisons, tuple)
    assert isinstance(on_disk.comparisons, OnDisk)
    assert isinstance(on_disk.users["u1"].judgements, OnDisk)
    assert on_disk.comparisons == held.comparisons
    assert on_disk.users == held.users
    assert on_disk.content_hash == held.content_hash
    assert on_disk.comparisons[3:9] == held.comparisons[3:9]
    assert pickle.loads(pickle.dumps(on_disk.comparisons)) == held.comparisons


@pytest.mark.parametrize("date", ["20{0:02d}-01-0{1}", ""])
def test_a_run_from_the_disk_is_byte_for_byte_that_from_memory(
    tmp_path: Path, request: pytest.FixtureRequest, date: str
) -> None:
    def run(out: str) -> dict[str, bytes]:
        summary = evaluate(
            f"{table(tmp_path, date=date)},category=category",
            ["overlap", "longest"],
            ["none", "judgements:4", "swapped"],
            out=tmp_path / out,
        )
        files = {file.name: file.read_bytes() for file in Path(summary.run).iterdir() if file.suffix == ".jsonl"}
        return {**files, "summary": repr({**vars_of(summary), "run": ""}).encode()}

    in_memory = run("memory")
    request.getfixturevalue("small_memory")
    assert run("disk") == in_memory


@pytest.mark.parametrize("protocol", ["seen", "unseen", "leave-out:category"])
@pytest.mark.parametrize("twins", [False, True])
def test_folds_from_the_disk_are_those_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, twins: bool
) -> None:
    file = table(tmp_path, chosen=lambda number: " ".join(f"w{number % 45}{letter}" for letter in "abcdefghijkl"))
    source = f"{file},category=category"
    held = load_benchmark(source)
    monkeypatch.setattr(palate.data._tables, "MOST_HELD", 300)
    on_disk = load_benchmark(source)
    if twins:  # pairs of users, each with the items of the other
        held, on_disk = (
            msgspec.structs.replace(
                benchmark,
                comparisons=tuple(
                    msgspec.structs.replace(item, twin=items[place ^ 1].id) if place < 4 else item
                    for place, item in enumerate(items)
                ),
            )
            for benchmark in (held, on_disk)
            for items in [list(benchmark.comparisons)]
        )
    for one, other in zip(make_folds(held, protocol), make_folds(on_disk, protocol), strict=True):
        assert isinstance(other.train, tuple if twins else OnDisk)
        assert (one.name, one.train, one.test) == (other.name, tuple(other.train), tuple(other.test))
        assert one.trained_users == other.trained_users
        assert sum(len(user.judgements) for user in one.trained_users.values()) > 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**32 - 1)))), st.sampled_from([0, 9, 2**23]))
def test_a_bucket_holds_what_was_put_into_it_in_order(added: list[list[tuple[int, int]]], held: int) -> None:
    buckets = Buckets(5, np.dtype("<u4"), held)
    for some in added:
        both = np.array(some, np.int64).reshape(-1, 2)
        buckets.add(both[:, 0], both[:, 1])
    for bucket in range(5):
        assert buckets.read(bucket).tolist() == [number for some in added for own, number in some if own == bucket]


def vars_of(summary: object) -> dict[str, object]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("small_memory")
def test_faults_of_a_large_table_have_their_lines(tmp_path: Path) -> None:
    file = table(tmp_path)
    rows = file.read_text().splitlines()[1:]
    file.write_text(f"id,{COLUMNS}" + "".join(f"{number % 50},{row}\n" for number, row in enumerate(rows)))
    with pytest.raises(PalateError, match=r"table.csv:52: field 'id': '0' is already used in line 2"):
        load_benchmark(file)
    assert sum("already used" in fault.message for fault in check_benchmark(file)) == 10


@pytest.mark.usefixtures("small_memory")
def test_nothing_of_a_large_table_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy has no name, so that neither a crash nor an erasure leaves it."""
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    benchmark: Benchmark = load_benchmark(table(tmp_path))
    assert isinstance(benchmark.comparisons, OnDisk)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("small_memory")
def test_without_room_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(PalateError, match="set TMPDIR to a folder"):
        load_benchmark(table(tmp_path))
