"""Files under several names: an erasure reaches one of them, and the receipt tells of the others."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path

import pytest

from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.privacy import check_receipt, forget

NAMES = Pseudonyms(b"a key that only this test knows")


@pytest.mark.parametrize("symbolic", [True, False])
def test_a_receipt_names_files_that_keep_the_person_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, symbolic: bool
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    folder, other = tmp_path / "data", tmp_path / "elsewhere.jsonl"
    write_benchmark(load_benchmark("mini"), folder)
    file = folder / "users.jsonl"
    if symbolic:
        file.rename(other)
        file.symlink_to(other)
    else:
        other.hardlink_to(file)
    receipt = forget("art-01-a", NAMES, data=[folder], keep_answers=True)
    assert b"art-01-a" in other.read_bytes() and b"art-01-a" not in file.read_bytes()
    [left] = [line for place in receipt.places for line in place.left if str(file) in line]
    assert ("is yours to erase" if symbolic else "hard links") in left


@pytest.mark.parametrize("inside", [False, True])
def test_a_receipt_and_a_check_name_folders_behind_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    folder, other = tmp_path / "data", tmp_path / "elsewhere"
    write_benchmark(load_benchmark("mini"), folder)
    write_benchmark(load_benchmark("mini"), other)
    link = folder / "models" / "per-user" if inside else folder / "older"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other)
    receipt = forget("art-01-a", NAMES, data=[folder], keep_answers=True)
    assert b"art-01-a" in (other / "users.jsonl").read_bytes()
    assert any(str(link) in line and "nothing was searched" in line for line in receipt.not_erased)
    assert check_receipt(receipt, "art-01-a", NAMES).not_searched == [str(link)]


def test_a_receipt_and_a_check_name_packed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    write_benchmark(load_benchmark("mini"), folder)
    packed = [folder / "older.zip", folder / "older.jsonl.xz"]
    with zipfile.ZipFile(packed[0], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "users.jsonl")
    packed[1].write_bytes(lzma.compress((folder / "users.jsonl").read_bytes()))
    receipt = forget("art-01-a", NAMES, data=[folder], keep_answers=True)
    told = [line for line in receipt.not_erased if "packed" in line]
    assert len(told) == 2 and all(any(str(file) in line for line in told) for file in packed)
    assert sorted(check_receipt(receipt, "art-01-a", NAMES).not_searched) == sorted(map(str, packed))
