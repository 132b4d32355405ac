"""An erasure that is killed at any moment is finished by the next command, and nothing of the user is left."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from people import LOVES, NAMES, people

from palate.cli import main
from palate.data import Pseudonyms, pseudonym_key, write_benchmark
from palate.engine import AnswerCache, load_encoder
from palate.evaluation import evaluate
from palate.personal import PersonalModel
from palate.privacy import Receipt, forget, read_receipt
from palate.privacy._forget import finish_erasures
from palate.records import PalateError, unfinished_erasures
from palate.runs import FINISHED, locked, open_run, report_files, write_report_files

USER = "bo"
TWO = ["bo", "cy"]
"""Erased in one pass; neither was trained on by the policy."""
CHANGING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod"}
_watcher: list[Callable[[], None]] = []


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _watcher and (event in CHANGING or (event == "open" and _writes(arguments))):
        _watcher[-1]()


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


sys.addaudithook(_heard)


@contextmanager
def every_state(root: Path, states: Path) -> Iterator[list[Path]]:
    """A copy of all files as they are on the disk before and after each operation: what a kill there would leave."""
    copies: list[Path] = []
    seen: set[str] = set()
    real_sync = os.fsync

    def look() -> None:
        _watcher.append(lambda: None)  # the copying itself is not watched
        try:
            digest = hashlib.sha256()
            for file in sorted(root.rglob("*")):
                if file.is_file():
                    name = file.name.split(".")[1] if file.name.startswith(".") else file.name
                    digest.update(f"{file.parent}/{name}".encode() + hashlib.sha256(file.read_bytes()).digest())
            if digest.hexdigest() not in seen:
                seen.add(digest.hexdigest())
                copies.append(Path(shutil.copytree(root, states / f"{len(copies):03}")))
        finally:
            _watcher.pop()

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        look()

    _watcher.append(look)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        try:
            yield copies
        finally:
            _watcher.pop()
    look()


def holding(folder: Path, users: Sequence[str] = (USER,)) -> list[str]:
    """Files that name one of the users or hold a text of theirs."""
    loves = [LOVES[NAMES.index(user)] for user in users]
    ids = [mark for user in users for mark in (f'"{user}"', f">{user}<", f'"{user}-2"', f'"{user}-3"')]
    signs = [sign.encode() for sign in (*loves, *ids)]
    files = (file for file in folder.rglob("*") if file.is_file() and "policy" not in file.parts)
    return [str(file) for file in files if any(sign in file.read_bytes() for sign in signs)]


def walk(
    root: Path, tmp_path: Path, folders: list[str], at_most: int, users: Sequence[str] = (USER,)
) -> tuple[int, int]:
    """Kill at every point, or at points spread evenly; then call again, and once more, and look that all is erased.

    How many of the points left a journal, and how many there were.
    """
    names = Pseudonyms(pseudonym_key())
    kinds = {"data": "data", "model": "models"}
    places: dict[str, list[Path]] = {"data": [], "models": [], "runs": []}
    for folder in folders:
        places[kinds.get(folder, "runs")].append(root / folder)
    assert holding(root, users)
    with every_state(root, tmp_path / "states") as copies:
        whole = forget(users, names, receipt=root / "receipt.json", **places)
    assert not holding(root, users)
    shutil.rmtree(root)
    if not os.environ.get("PALATE_ALL_KILL_POINTS"):
        copies = copies[:: -(-len(copies) // at_most)]
    by_journal = 0
    for copy in copies:
        shutil.copytree(copy, root)
        interrupted = bool(unfinished_erasures())
        if interrupted or holding(root, users):
            again = forget(users, names, receipt=root / "receipt.json", **places)
            assert totals(again) == totals(whole)
            assert read_receipt(root / "receipt.json") == again
        with pytest.raises(PalateError, match=r"no (such )?user .* An earlier call may have done it"):
            forget(users, names, **places)
        by_journal += interrupted
        assert not holding(root, users), copy
        assert not unfinished_erasures()
        assert not [file for file in root.rglob(".*") if file.is_file()], copy
        for run in places["runs"]:
            open_run(run)
            assert (run / "report.html").is_file()
        shutil.rmtree(root)
    return by_journal, len(copies)


def totals(receipt: Receipt) -> dict[str, dict[str, int]]:
    return {place.path: place.erased for place in receipt.places}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    monkeypatch.setenv("PALATE_CACHE", str(root / "cache"))
    monkeypatch.setenv("PALATE_PSEUDONYM_KEY", "a key that only this test knows")
    root.mkdir()
    return root


@pytest.mark.parametrize(
    ("kind", "at_most", "users"),
    [
        ("rated", 100, [USER]),
        ("best", 10, [USER]),
        ("guided", 10, [USER]),
        ("table", 8, [USER]),
        ("trained", 100, [USER]),
        ("rated", 5, TWO),
        ("best", 4, TWO),
        ("guided", 4, TWO),
        ("table", 2, TWO),
        ("trained", 5, TWO),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_every_kill_point_of_every_kind_of_run(
    kind: str, at_most: int, users: list[str], every_run: Path, root: Path, tmp_path: Path
) -> None:
    """All points of all kinds take twenty minutes: set PALATE_ALL_KILL_POINTS."""
    shutil.copytree(every_run / kind, root / kind)
    if kind == "table":
        for part in open_run(every_run / kind).experiment.parts(open_run(every_run / kind)):
            shutil.copytree(part, root / part.name, dirs_exist_ok=True)
    by_journal, points = walk(root, tmp_path, [kind], at_most, users)
    assert by_journal >= min(4, points // 2)


@pytest.mark.parametrize("users", [[USER], TWO], ids="+".join)
def test_every_kill_point_of_data_models_and_caches(
    root: Path, tmp_path: Path, tiny_encoder: Callable[[int], Path], users: list[str]
) -> None:
    benchmark = people()
    write_benchmark(benchmark, root / "data")
    encoder = str(tiny_encoder(0))
    PersonalModel("per-user", features=encoder).fit(benchmark.comparisons, benchmark.users).save(root / "model")
    load_encoder(encoder).encode([post.text for user in benchmark.users.values() for post in user.posts])
    cache = AnswerCache(root / "cache" / "answers.sqlite")
    cache.put([(b"hash of a request", '{"text": "They are fond of chess."}')])
    cache.close()
    by_journal, points = walk(root, tmp_path, ["data", "model"], 100 if users == [USER] else 12, users)
    assert by_journal >= min(4, points // 2)


def test_any_other_command_finishes_it_first(
    every_run: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(every_run / "rated", root / "rated")
    with every_state(root, tmp_path / "states") as copies:
        forget(USER, Pseudonyms(pseudonym_key()), runs=[root / "rated"])
    shutil.rmtree(root)
    shutil.copytree(copies[len(copies) // 2], root)
    assert len(unfinished_erasures()) == 1
    for arguments, finished in ((["--help"], False), (["data", "list"], True), (["data", "list"], False)):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        assert ("which was interrupted" in capsys.readouterr().err) == finished
    assert not holding(root)
    assert (root / "rated" / "report.html").is_file()


@pytest.mark.parametrize("name", [".report.html.4711", ".items.jsonl.x1y2"])
def test_drafts_that_a_killed_process_left_go_too(every_run: Path, root: Path, name: str) -> None:
    shutil.copytree(every_run / "rated", root / "rated")
    (root / "rated" / name).write_text(f"of {USER}, who loves chess")
    forget(USER, Pseudonyms(pseudonym_key()), runs=[root / "rated"])
    assert not holding(root)
    assert not (root / "rated" / name).exists()


def test_reports_that_were_made_while_an_erasure_waited(own_cache: Path, tmp_path: Path) -> None:
    """The run was still being measured, and the erasure was written down; the reports came in between."""
    folder, names = tmp_path / "people", Pseudonyms(pseudonym_key())
    write_benchmark(people(), folder)
    run = open_run(Path(evaluate(str(folder), ["overlap"], views=["none"], out=tmp_path / "runs").run))
    (run.folder / FINISHED).unlink()
    with locked([run.folder / "ratings.jsonl"]), pytest.raises(PalateError, match="the next palate command finishes"):
        forget(USER, names, runs=[run.folder])
    write_report_files(run, report_files(run, run.experiment.summarise(run))[1])
    named = re.compile(rf'"(user|user_id)": ?"{USER}"')
    assert named.search((run.folder / "summary.json").read_text())
    finish_erasures(names)
    for report in ("summary.json", "report.html"):
        assert not named.search((run.folder / report).read_text()), report
