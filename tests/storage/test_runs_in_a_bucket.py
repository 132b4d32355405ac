"""Runs in a bucket: measured, resumed, merged and read there, byte for byte as on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from buckets import EVAL, Server, done, here, in_bucket, left_here, machine, workplace

from palate.records import PalateError
from palate.runs import FINISHED, REPORTS, SPENT, open_run
from palate.storage import Remote, Store, _copy, _lease
from palate.storage._address import storage_root, working_path
from palate.storage._copy import WorkingCopy
from palate.storage._lease import LostLeaseError


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a command that has measured here, without any bucket."""
    folder = workplace(tmp_path_factory.mktemp("measured") / "place")
    done(folder, *EVAL, "--out", "runs")
    return folder


@pytest.fixture
def place(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "place" / "cache"))
    return shutil.copytree(measured, tmp_path / "place")


def run_of(place: Path) -> str:
    """The name of the run that every test makes."""
    return next(file.parent.name for file in (place / "runs").glob("*/settings.json"))


def same(found: dict[str, bytes], expected: dict[str, bytes], url: str) -> None:
    """Byte for byte, but for how the run is called and what it cost. `finished.json` has a hash of both."""
    found, expected = (
        {
            name: without_costs(Path(name).name, content)
            for name, content in files.items()
            if Path(name).name not in (FINISHED, SPENT)
        }
        for files in (found, expected)
    )
    assert list(found) == list(expected)
    for name, content in expected.items():
        assert found[name].replace(url.encode(), b"runs") == content, name


def without_costs(name: str, content: bytes) -> bytes:
    """A report without its seconds, which no two runs have in common."""
    if name == "summary.json":
        return json.dumps({**json.loads(content), "spent": None}).encode()
    if name == "report.md":
        return content.partition(b"## What it cost")[0]
    if name == "report.html":
        before, there, after = content.partition(b">What it cost</h2>")
        assert there
        return before + after.partition(b"</section>")[2]
    return content


def test_a_run_in_a_bucket_is_the_run_here(place: Path, bucket: str) -> None:
    told = done(place, *EVAL, "--out", f"{bucket}/runs")
    run = run_of(place)
    assert f"{bucket}/runs/{run}/report.html" in told.stdout.replace("\n", "")
    same(in_bucket(f"{bucket}/runs"), here(place / "runs"), f"{bucket}/runs")
    assert not left_here()
    before = in_bucket(bucket)
    done(place, *EVAL, "--out", f"{bucket}/runs", cache="another")  # finished: nothing is measured or changed
    done(place, "report", f"{bucket}/runs/latest")
    changed = {name for name, content in in_bucket(bucket).items() if before.get(name) != content}
    assert {Path(name).name for name in changed} <= {FINISHED}
    listed = done(place, "runs", f"{bucket}/runs", "--json").stdout
    assert f'"run":"{bucket}/runs/{run}"' in listed and '"complete":true' in listed
    compared = done(place, "compare", f"{bucket}/runs/{run}", f"runs/{run}")
    assert "that do not differ at all" in compared.stdout
    assert "length" in done(place, "audit", f"{bucket}/runs/latest").stdout
    done(place, "leaderboard", f"{bucket}/runs", "--output", f"{bucket}/site")
    assert "data/board.js" in in_bucket(f"{bucket}/site")
    assert not left_here()


def measuring(place: Path, out: str) -> subprocess.Popen[bytes]:
    """A slow run in a process of its own, which uploads all the time."""
    code = "import palate.storage._session as s; s.INTERVAL = 0.2\nimport palate.cli as c, sys; c.main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *EVAL, "--out", out],
        cwd=place,
        env=os.environ | {"SLOW": "0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_killed_run_resumes_on_another_machine(place: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, whole = run_of(place), (place / "runs" / run_of(place) / "ratings.jsonl").read_bytes()
    killed = measuring(place, f"{bucket}/runs")
    store = Store(f"{bucket}/runs/{run}")
    try:
        while not (there := store.read("ratings.jsonl") or b""):
            assert killed.poll() is None, "it ended before it was killed"
            time.sleep(0.02)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert whole.startswith(there) and there != whole
    copy = working_path(f"{bucket}/runs/{run}")
    assert (copy / "ratings.jsonl").read_bytes()
    assert stat.S_IMODE(storage_root().stat().st_mode) == 0o700
    refused = machine(place, *EVAL, "--out", f"{bucket}/runs", cache="another")
    assert refused.returncode == 2 and f"process {killed.pid} on " in refused.stderr, refused.stderr
    monkeypatch.setattr(_lease, "EXPIRES", -1.0)
    told = done(place, *EVAL, "--out", f"{bucket}/runs", cache="another")
    assert f"took over {bucket}/runs/{run} from process {killed.pid}" in told.stderr
    same(in_bucket(f"{bucket}/runs"), here(place / "runs"), f"{bucket}/runs")
    # What the first machine kept is in the bucket by now, so the same command there finds the run finished.
    done(place, *EVAL, "--out", f"{bucket}/runs")
    assert not left_here()


def test_a_run_that_died_resumes_here_at_once(place: Path, bucket: str) -> None:
    run = run_of(place)
    died = WorkingCopy(working_path(f"{bucket}/runs/{run}"))
    grow(place / "runs" / run, died.folder, early=True)
    died.push()
    os.close(died._lock)  # as the system does with a process that is gone; its lease stays
    told = done(place, *EVAL, "--out", f"{bucket}/runs")
    assert "took over" not in told.stderr
    same(in_bucket(f"{bucket}/runs"), here(place / "runs"), f"{bucket}/runs")


def test_lost_permission_keeps_the_copy_and_says_where(
    place: Path, bucket: str, s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(place)
    upload = WorkingCopy.push

    def without_permission(self: WorkingCopy) -> int:
        s3_server.permit("3")  # the lease and little else
        return upload(self)

    with monkeypatch.context() as patch:
        patch.setattr(WorkingCopy, "push", without_permission)
        told = machine(place, *EVAL, "--out", f"{bucket}/runs")
    copy = working_path(f"{bucket}/runs/{run}")
    assert told.returncode == 2 and "do not permit it" in told.stderr
    assert f"kept in the working copy {copy}. Run the same command again" in told.stderr, told.stderr
    assert (copy / "ratings.jsonl").read_bytes() == (place / "runs" / run / "ratings.jsonl").read_bytes()
    s3_server.permit("inf")
    done(place, *EVAL, "--out", f"{bucket}/runs")
    same(in_bucket(f"{bucket}/runs"), here(place / "runs"), f"{bucket}/runs")
    assert not left_here()


def test_a_second_writer_is_refused_and_a_lost_lease_stops_the_first(
    place: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(place)
    first = WorkingCopy(working_path(f"{bucket}/runs/{run}"))
    here_too = machine(place, *EVAL, "--out", f"{bucket}/runs")
    assert here_too.returncode == 2 and "another process on this machine is writing to" in here_too.stderr
    second = machine(place, *EVAL, "--out", f"{bucket}/runs", cache="another")
    assert second.returncode == 2 and "is writing to" in second.stderr and "Wait for it" in second.stderr
    assert not [name for name in in_bucket(f"{bucket}/runs") if name.endswith(".jsonl")]
    monkeypatch.setattr(_lease, "EXPIRES", -1.0)
    done(place, *EVAL, "--out", f"{bucket}/runs", cache="another")
    first.folder.mkdir(parents=True)
    (first.folder / "ratings.jsonl").write_bytes(b"{}\n")
    with pytest.raises(LostLeaseError, match="somebody has removed the lease"):
        first.push()
    same(in_bucket(f"{bucket}/runs"), here(place / "runs"), f"{bucket}/runs")


def test_only_one_of_two_takes_a_lease(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"{bucket}/run")
    one, other = _lease.Lease(store, "one"), _lease.Lease(store, "other")
    monkeypatch.setattr(_lease.Lease, "_highest", lambda self: ("", None))  # both look before either takes
    assert one.take() is None
    with pytest.raises(PalateError, match="has just begun to write"):
        other.take()


def test_shards_of_several_machines_are_merged_in_the_bucket(place: Path, bucket: str) -> None:
    for number in (2, 1):
        told = done(place, *EVAL, "--shard", f"{number}/2", "--out", f"{bucket}/runs", cache=f"machine-{number}")
    assert f"palate merge {bucket}/runs/shard-*-of-2/{run_of(place)} --out {bucket}/runs" in told.stderr
    done(place, "merge", f"{bucket}/runs/shard-*-of-2", "--out", f"{bucket}/runs")
    found = {name: content for name, content in in_bucket(f"{bucket}/runs").items() if not name.startswith("shard-")}
    same(found, here(place / "runs"), f"{bucket}/runs")
    nothing = machine(place, "merge", f"{bucket}/runs/shard-*-of-9", "--out", f"{bucket}/runs")
    assert nothing.returncode == 2 and "matches nothing" in nothing.stderr


def test_an_upload_that_stops_anywhere_leaves_a_run_that_opens(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place / "runs" / run_of(place)
    order = [ledger.name for ledger in open_run(run).ledgers]
    put, stops = Store.put, 0
    for puts in range(12):
        url = f"memory://stops/{place.parent.name}/{puts}"
        copy = WorkingCopy(working_path(url), order)
        grow(run, copy.folder, early=True)
        copy.push()
        grow(run, copy.folder, early=False)
        left = iter(range(puts))

        def some(self: Store, name: str, stream: IO[bytes], size: int, beat: Callable[[], None]) -> Remote:
            if next(left, None) is None:  # noqa: B023
                raise PalateError("stopped")
            return put(self, name, stream, size, beat)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", some)
            try:
                copy.push()
            except PalateError as error:
                assert str(error) == "stopped"
                stops += 1
        fetched = place / "fetched" / str(puts)
        fetched.mkdir(parents=True)
        Store(url).fetch(fetched)
        open_run(fetched).check()
    assert 2 < stops < 12


def grow(run: Path, copy: Path, *, early: bool) -> None:
    """A run as it was after a quarter of its views, or whole."""
    copy.mkdir(parents=True, exist_ok=True)
    kept = {file.name: file.read_bytes().splitlines(keepends=True) for file in run.iterdir() if file.is_file()}
    if early:
        views = kept["views.jsonl"] = kept["views.jsonl"][: len(kept["views.jsonl"]) // 4]
        kept["ratings.jsonl"] = kept["ratings.jsonl"][: len(views) // 2]
        shown = {key for view in views for key in json.loads(view).get("parts", ())}
        kept["parts.jsonl"] = [part for part in kept["parts.jsonl"] if json.loads(part)["key"] in shown]
        assert len(kept["parts.jsonl"]) > 1
    for name, lines in kept.items():
        if not (early and name in (*REPORTS, FINISHED)):
            (copy / name).write_bytes(b"".join(lines))


def test_what_both_changed_is_not_overwritten(place: Path, bucket: str) -> None:
    url = f"{bucket}/lines"
    first = WorkingCopy(working_path(url))
    first.folder.mkdir(parents=True)
    (first.folder / "a.jsonl").write_bytes(b"1\n")
    first.push()
    (first.folder / "a.jsonl").write_bytes(b"1\n2\n")
    os.close(first._lock)
    Store(url).put_bytes("a.jsonl", b"1\n3\n")
    with pytest.raises(PalateError, match="was changed elsewhere since this machine uploaded"):
        WorkingCopy(first.folder)
    Store(url).put_bytes("a.jsonl", b"1\n2\n3\n")  # the store is ahead by lines, which is taken
    taken = WorkingCopy(first.folder)
    assert (taken.folder / "a.jsonl").read_bytes() == b"1\n2\n3\n"
    os.close(taken._lock)
    (taken.folder / "a.jsonl").write_bytes(b"1\n2\n3\n4\n")
    Store(url).put_bytes("a.jsonl", b"1\n2\n")  # and so is what this machine has more of
    kept = WorkingCopy(first.folder)
    assert (kept.folder / "a.jsonl").read_bytes() == b"1\n2\n3\n4\n"
    kept.close()
    assert in_bucket(url) == {"a.jsonl": b"1\n2\n3\n4\n"}


def test_only_what_changed_is_uploaded(place: Path, bucket: str) -> None:
    copy = WorkingCopy(working_path(f"{bucket}/lines"))
    copy.folder.mkdir(parents=True)
    for name in ("a.jsonl", "b.jsonl", ".draft"):
        (copy.folder / name).write_bytes(b"1\n")
    assert copy.push() == 2
    (copy.folder / "a.jsonl").write_bytes(b"1\n")  # touched, and the same
    assert copy.push() == 0
    with (copy.folder / "b.jsonl").open("ab") as stream:
        stream.write(b"2\n")
    (copy.folder / "a.jsonl").unlink()
    assert copy.push() == 2
    copy.close()
    assert in_bucket(f"{bucket}/lines") == {"b.jsonl": b"1\n2\n"}


def test_files_that_grow_are_uploaded_as_they_were_at_one_moment(
    place: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = WorkingCopy(working_path(f"{bucket}/lines"))
    copy.folder.mkdir(parents=True)
    (copy.folder / "needed.jsonl").write_bytes(b"1\n")
    (copy.folder / "ratings.jsonl").write_bytes(b"1\n")
    look, looks = _copy._look, iter(range(2))

    def while_written(folder: Path):
        seen = look(folder)
        if folder == copy.folder and next(looks, None) is not None:  # a line and what is made of it
            for name in ("needed.jsonl", "ratings.jsonl"):
                with (folder / name).open("ab") as stream:
                    stream.write(b"2\n")
            return {**seen, "ratings.jsonl": look(folder)["ratings.jsonl"]}
        return seen

    monkeypatch.setattr(_copy, "_look", while_written)
    copy.push()
    found = in_bucket(f"{bucket}/lines")
    assert found["needed.jsonl"] == found["ratings.jsonl"] == b"1\n2\n2\n"


def test_a_lease_is_renewed_during_an_upload_and_a_lost_one_publishes_no_piece(
    place: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/large"
    copy = WorkingCopy(working_path(url))
    copy.folder.mkdir(parents=True)
    (copy.folder / "weights").write_bytes(bytes(3 << 20))
    renew, renewals = _lease.Lease.renew, iter(range(3))

    def until_it_is_lost(self: _lease.Lease) -> None:
        if next(renewals, None) is None:
            Store(url).remove(self._name)
        renew(self)

    monkeypatch.setattr(_lease, "EXPIRES", 0.0)  # it is always time
    monkeypatch.setattr(_lease.Lease, "renew", until_it_is_lost)
    with pytest.raises(LostLeaseError):
        copy.push()
    assert not in_bucket(url)


@pytest.mark.parametrize("puts", [1, 2])
def test_what_is_written_before_the_settings_is_uploaded_before_them(
    puts: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://begun/{place.parent.name}"
    copy = WorkingCopy(working_path(url))
    copy.folder.mkdir(parents=True)
    for moment, name in enumerate(("command.txt", "settings.json", "ratings.jsonl", "a-report.md"), start=1):
        (copy.folder / name).write_bytes(b"{}\n")
        os.utime(copy.folder / name, (moment, moment))
    put, left = Store.put, iter(range(puts))

    def some(self: Store, name: str, stream: IO[bytes], size: int, beat: Callable[[], None]) -> Remote:
        if next(left, None) is None:
            raise PalateError("stopped")
        return put(self, name, stream, size, beat)

    monkeypatch.setattr(Store, "put", some)
    with pytest.raises(PalateError, match="stopped"):
        copy.push()
    assert list(Store(url).objects()) == ["command.txt", "settings.json"][:puts]
