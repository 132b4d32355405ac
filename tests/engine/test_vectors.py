"""Vectors on disk survive crashes and company, and are gone when they are to be forgotten."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from palate.engine import Vectors, forget_vectors
from palate.engine._vectors import ERASING, RECORD, VectorStore, remembered, vector_key
from palate.records import PalateError

WIDTH = 12


def vector(seed: int) -> Vectors:
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def some(count: int, start: int = 0) -> tuple[list[bytes], Vectors]:
    numbers = range(start, start + count)
    return [vector_key(f"text {n}") for n in numbers], np.stack([vector(n) for n in numbers])


def assert_holds(store: VectorStore, count: int, start: int = 0) -> None:
    keys, vectors = some(count, start)
    found = store.get(keys)
    np.testing.assert_array_equal(np.stack([found[key] for key in keys]), vectors)


def test_what_was_put_is_found_again_here_and_by_others(tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "encoder")
    assert store.dimensions is None
    store.put(*some(100))
    assert_holds(store, 100)
    assert_holds(VectorStore(tmp_path / "encoder"), 100)
    assert VectorStore(tmp_path / "encoder").dimensions == WIDTH
    assert store.get([vector_key("never seen")]) == {}


def test_a_found_vector_can_be_changed_without_harm(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    store.put(*some(1))
    keys, vectors = some(1)
    store.get(keys)[keys[0]][:] = 0
    np.testing.assert_array_equal(store.get(keys)[keys[0]], vectors[0])


def test_a_reader_sees_what_another_adds_while_it_is_open(tmp_path: Path) -> None:
    reader, writer = VectorStore(tmp_path), VectorStore(tmp_path)
    for start in range(0, 50, 10):
        writer.put(*some(10, start))
        assert_holds(reader, start + 10)
    assert len(reader) == 50


def test_a_text_is_kept_once(tmp_path: Path) -> None:
    one, other = VectorStore(tmp_path), VectorStore(tmp_path)
    for store in (one, other, one):
        store.put(*some(10))
    assert (tmp_path / "vectors").stat().st_size == 10 * 4 * WIDTH


@pytest.mark.parametrize("torn", [1, 4 * WIDTH, 4 * WIDTH * 3 + 5])
def test_vectors_that_never_got_a_key_are_cut_off(tmp_path: Path, torn: int) -> None:
    VectorStore(tmp_path).put(*some(5))
    with (tmp_path / "vectors").open("ab") as stream:
        stream.write(b"\x01" * torn)
    with (tmp_path / "keys").open("ab") as stream:
        stream.write(b"\x02" * 7)
    store = VectorStore(tmp_path)
    assert (tmp_path / "vectors").stat().st_size == 5 * 4 * WIDTH
    assert (tmp_path / "keys").stat().st_size == 6 * RECORD
    store.put(*some(5, 5))
    assert_holds(VectorStore(tmp_path), 10)


def test_keys_without_vectors_are_cut_off(tmp_path: Path) -> None:
    VectorStore(tmp_path).put(*some(5))
    os.truncate(tmp_path / "vectors", 3 * 4 * WIDTH + 1)
    store = VectorStore(tmp_path)
    assert len(store) == 3
    store.put(*some(5))
    assert_holds(store, 5)


@pytest.mark.parametrize("size", [0, 5, RECORD - 1])
def test_a_crash_before_the_first_key_leaves_an_empty_store(tmp_path: Path, size: int) -> None:
    VectorStore(tmp_path).put(*some(5))
    os.truncate(tmp_path / "keys", size)
    store = VectorStore(tmp_path)
    assert len(store) == 0
    store.put(*some(2))
    assert_holds(VectorStore(tmp_path), 2)


WRITER = """
import sys, numpy as np
from pathlib import Path
from palate.engine._vectors import VectorStore, vector_key
store = VectorStore(Path(sys.argv[1]))
print("ready", flush=True)
for start in range(int(sys.argv[2]), int(sys.argv[3]), 5):
    numbers = range(start, start + 5)
    vectors = [np.random.default_rng(n).normal(size=12).astype(np.float32) for n in numbers]
    store.put([vector_key(f"text {n}") for n in numbers], np.stack(vectors))
"""


def writer(folder: Path, first: int, last: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first), str(last)], stdout=subprocess.PIPE, cwd=folder.parent
    )


def test_a_writer_that_is_killed_costs_nothing_that_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    process = writer(folder, 0, 10**9)
    assert process.stdout is not None
    process.stdout.readline()
    watching = VectorStore(folder)
    while len(watching) < 100:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = VectorStore(folder)
    kept = len(store)
    assert kept >= 100
    assert_holds(store, kept)
    store.put(*some(10, kept))
    assert_holds(VectorStore(folder), kept + 10)


def test_processes_that_write_at_once_keep_everything(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    processes = [writer(folder, 0, 300), writer(folder, 200, 600), writer(folder, 500, 700)]
    assert [process.wait(timeout=900) for process in processes] == [0, 0, 0]
    store = VectorStore(folder)
    assert len(store) == 700
    assert_holds(store, 700)
    assert (folder / "vectors").stat().st_size == 700 * 4 * WIDTH


def test_a_full_disk_costs_speed_and_not_the_result(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    store.put(*some(10))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * 4 * WIDTH, before[1]))
    try:
        with pytest.warns(UserWarning, match="cannot be kept in"):
            store.put(*some(10, 10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_holds(store, 20)
    assert len(VectorStore(tmp_path)) == 10
    store.put(*some(10, 10))
    assert_holds(VectorStore(tmp_path), 20)


def test_a_folder_that_is_deleted_meanwhile_is_begun_again(tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "encoder")
    store.put(*some(10))
    for file in (tmp_path / "encoder").iterdir():
        file.unlink()
    (tmp_path / "encoder").rmdir()
    assert store.get(some(10)[0]) == {}
    store.put(*some(3))
    assert_holds(store, 3)


def test_forgotten_vectors_leave_no_byte_behind(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    store.put(*some(20))
    assert store.forget(["text 7", "text 12", "never seen"]) == 2
    held = (tmp_path / "vectors").read_bytes() + (tmp_path / "keys").read_bytes()
    for number in (7, 12):
        assert not any(vector(number)[k : k + 1].tobytes() in held for k in range(WIDTH))
        assert vector_key(f"text {number}")[:8] not in held
    assert vector(8).tobytes() in held
    assert len(store) == len(VectorStore(tmp_path)) == 18
    assert store.get([vector_key("text 7")]) == {}
    assert_holds(store, 7)
    assert store.forget(["text 7"]) == 0


def test_a_text_is_forgotten_in_every_context_and_as_a_context(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    pairs = [("secret", None), ("secret", "one"), ("secret", "two"), ("answer", "secret"), ("answer", "one")]
    store.put([vector_key(*pair) for pair in pairs], np.stack([vector(n) for n in range(5)]))
    assert len(store) == 5
    assert store.forget(["secret"]) == 4
    assert list(store.get([vector_key(*pair) for pair in pairs])) == [vector_key("answer", "one")]


def test_another_process_no_longer_finds_what_was_forgotten(tmp_path: Path) -> None:
    reader, other = VectorStore(tmp_path), VectorStore(tmp_path)
    other.put(*some(5))
    assert_holds(reader, 5)
    other.forget(["text 2"])
    assert vector_key("text 2") not in reader.get(some(5)[0])
    reader.put(*some(5))  # read anew, it is kept anew
    assert_holds(other, 5)


def test_what_a_crash_left_half_forgotten_is_erased_at_the_next_start(tmp_path: Path) -> None:
    VectorStore(tmp_path).put(*some(5))
    with (tmp_path / "keys").open("r+b") as stream:
        stream.seek(RECORD * 3)
        stream.write(ERASING)
    assert len(VectorStore(tmp_path)) == 4
    assert vector(2).tobytes() not in (tmp_path / "vectors").read_bytes()
    assert ERASING not in (tmp_path / "keys").read_bytes()


def test_every_encoder_forgets(own_cache: Path) -> None:
    for name in ("one", "other"):
        VectorStore(own_cache / "vectors" / name).put(*some(5))
    assert forget_vectors(["text 1"]) == 2
    assert forget_vectors(["text 3"], root=own_cache / "vectors") == 2
    assert forget_vectors(["text 3"], root=own_cache / "nothing here") == 0
    assert len(VectorStore(own_cache / "vectors" / "one")) == 3


def test_only_unknown_texts_are_read_each_once(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    asked: list[tuple[str, str | None]] = []

    def read(pairs: list[tuple[str, str | None]]) -> Vectors:
        asked.extend(pairs)
        return np.asarray([[len(text), len(context or "")] for text, context in pairs], np.float32)

    remembered(store, ["a", "bb", "a"], None, read)
    found = remembered(store, ["a", "bb", "ccc"], ["", None, "context"], read)
    assert asked == [("bb", None), ("a", None), ("ccc", "context")]
    np.testing.assert_array_equal(found, [[1, 0], [2, 0], [3, 7]])
    with pytest.raises(PalateError, match="2 texts came with 1 contexts"):
        remembered(store, ["a", "b"], ["c"], read)


def test_odd_texts_have_keys_of_their_own() -> None:
    texts = ["", "\ud800", "a", "a ", "é", "e\u0301", "a\x00b"]
    keys = {vector_key(text, context) for text in texts for context in (None, *texts[1:])}
    assert len(keys) == len(texts) ** 2
    assert vector_key("a", "") == vector_key("a")


def test_a_cache_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PalateError, match="PALATE_CACHE"):
        VectorStore(tmp_path / "file" / "encoder")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"somebody else's file, and a long one at that")
    with pytest.raises(PalateError, match="not a file of this version"):
        VectorStore(tmp_path)
    assert (tmp_path / "keys").read_bytes().startswith(b"somebody")


def test_vectors_of_another_width_are_refused(tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    store.put(*some(2))
    with pytest.raises(PalateError, match="holds vectors of 12 numbers, and 3 were given"):
        store.put([vector_key("new")], np.ones((1, 3), np.float32))
