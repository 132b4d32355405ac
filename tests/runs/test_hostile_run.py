"""A run folder from a stranger: nothing outside of it is written, and nothing in it stops palate."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command import palate
from palate.collect._access import _make_key
from palate.data import Pseudonyms
from palate.data._deidentify import _make_key as make_pseudonym_key
from palate.downstream._items import PromptItem
from palate.privacy import forget
from palate.records import PalateError, unfinished_erasures
from palate.runs import Appender, find_run, open_run, write_whole

NAMES = Pseudonyms(b"a key that only this test knows")
KEY = "a key in one line, without an end"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    assert palate("eval", "mini", "--rm", "longest", "--view", "none", "--limit", "6", "--out", out).returncode == 0
    return find_run(out / "latest")


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(made, tmp_path / "runs" / made.name))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    file = tmp_path / "elsewhere.key"
    file.write_text(KEY)
    return file


def refused(*words: str | Path) -> str:
    done = palate(*words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    return done.stderr


def link(ledger: Path, target: Path) -> None:
    ledger.unlink()
    ledger.symlink_to(target)


def anybody(run: Path) -> str:
    return str(json.loads((run / "items.jsonl").read_text().splitlines()[0])["user_id"])


def test_an_erasure_changes_no_file_that_a_ledger_leads_to(run: Path, elsewhere: Path) -> None:
    user = anybody(run)
    link(run / "ratings.jsonl", elsewhere)
    receipt = forget(user, NAMES, runs=[run], keep_answers=True)
    assert elsewhere.read_text() == KEY
    assert any("was a link" in line for place in receipt.places for line in place.left)


def test_neither_does_a_repair_nor_going_on(run: Path, elsewhere: Path) -> None:
    link(run / "ratings.jsonl", elsewhere)
    palate("report", run, "--repair")
    assert elsewhere.read_text() == KEY
    again = refused("eval", "mini", "--rm", "longest", "--view", "none", "--limit", "6", "--out", run.parent)
    assert "is a link" in again
    assert elsewhere.read_text() == KEY
    with pytest.raises(PalateError, match="is a link"):
        Appender(run / "ratings.jsonl")


@pytest.mark.parametrize(
    "write",
    [
        lambda file: write_whole(file, b"new"),
        _make_key,
        make_pseudonym_key,
    ],
    ids=["write_whole", "the key of a collection", "the key of pseudonyms"],
)
def test_a_draft_is_never_written_through_a_link(
    tmp_path: Path, elsewhere: Path, write: Callable[[Path], object]
) -> None:
    file = tmp_path / "report.html"
    file.with_name(f".{file.name}.{os.getpid()}").symlink_to(elsewhere)
    write(file)
    assert elsewhere.read_text() == KEY
    assert not file.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["ratings.jsonl", "items.jsonl", "finished.json", "spent.json", "summary.json"])
@pytest.mark.parametrize("pipe", [True, False], ids=["pipe", "device"])
def test_what_is_no_file_is_not_read(run: Path, name: str, pipe: bool) -> None:
    (run / name).unlink(missing_ok=True)
    if pipe:
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    done = palate("report", run)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if name.endswith(".jsonl") else 0)
    assert (f"{name} is not a file" in done.stderr) == name.endswith(".jsonl")


def test_a_link_to_nothing_does_not_stop_a_list_of_runs(run: Path) -> None:
    (run / "more.jsonl").symlink_to(run / "nowhere")
    assert palate("runs", run.parent).returncode == 0


@pytest.mark.parametrize(
    "change",
    [
        {"shard": {"number": 1, "of": 10**9}},
        {"shard": {"number": 0, "of": 2}},
        {"batch": 0},
        {"batch": -1},
        {"batch": 10**12},
    ],
    ids=str,
)
def test_a_shard_with_numbers_that_none_has_is_refused(run: Path, change: dict[str, object]) -> None:
    (run / "shard.json").write_text(json.dumps({"shard": {"number": 1, "of": 1}, "batch": 256} | change))
    assert "shard.json cannot be read" in refused("merge", run, "--out", run.parent / "merged")


def test_a_run_without_items_is_refused_in_a_sentence(run: Path) -> None:
    (run / "items.jsonl").write_bytes(b"")
    (run / "ratings.jsonl").write_bytes(b"")
    assert "holds no items" in refused("report", run)
    assert palate("runs", run.parent).returncode == 0
    assert open_run(run).folder == run


def change(file: Path, **fields: object) -> None:
    first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([json.dumps(json.loads(first) | fields) + "\n", *rest]))


@pytest.mark.parametrize("preferred", [-1, 2, 10**25])
def test_an_item_that_prefers_what_it_does_not_offer_is_damaged(run: Path, preferred: int) -> None:
    change(run / "items.jsonl", preferred=preferred)
    for words in (("report", run), ("submit", "check", run)):
        assert "items.jsonl, line 1: it cannot be read: preferred is" in refused(*words)
    with pytest.raises(ValueError, match="there are 0 responses"):
        PromptItem(id="1", user_id="ann", prompt="Tea?", preferred=0)


@pytest.mark.parametrize(
    "rating",
    [{"scores": [1.0]}, {"scores": [1, 2, 3]}, {"scores": [1, 2], "probabilities": [1]},
     {"scores": [1, 2], "verdicts": ["A"]}, {"scores": [1, 2], "verdicts": ["x", "A"]}, {"scores": []}],
    ids=str,
)  # fmt: skip
def test_a_rating_with_other_numbers_than_its_item_has_responses_is_damaged(
    run: Path, rating: dict[str, object]
) -> None:
    change(run / "ratings.jsonl", rating=rating)
    for words in (("report", run), ("submit", "check", run)):
        wanted = "verdicts are A, B or tie" if "verdicts" in rating else "one number for each of its 2 responses"
        assert wanted in refused(*words)


def settle(run: Path, **fields: object) -> None:
    file = run / "settings.json"
    said = json.loads(file.read_text())
    said["settings"] |= fields
    file.write_text(json.dumps(said))


def test_no_run_has_more_strangers_than_can_be_counted(run: Path) -> None:
    settle(run, views=[{"name": "none", "draws": 10**9}])
    assert "draws" in refused("report", run)
    words = ("eval", "mini", "--rm", "longest", "--view", "swapped:posts:2", "--strangers", "1001")
    assert "from 1 to 1,000" in refused(*words)


@pytest.mark.parametrize("fields", [{"seed": -1}, {"models": []}, {"views": []}], ids=str)
def test_settings_that_no_run_has_are_refused(run: Path, fields: dict[str, object]) -> None:
    settle(run, **fields)
    for words in (("report", run), ("submit", "check", run), ("leaderboard", run, "--output", run.parent / "site")):
        assert next(iter(fields)) in refused(*words)


def test_a_run_that_nobody_can_sum_up_does_not_keep_a_person(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = anybody(run)

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault of the run")

    monkeypatch.setattr(type(open_run(run).experiment), "summarise", fail)
    receipt = forget(user, NAMES, runs=[run], keep_answers=True)
    assert not unfinished_erasures()
    assert any("cannot be made again (ZeroDivisionError)" in line for place in receipt.places for line in place.left)
    assert not [file for file in run.iterdir() if user in file.read_text()]
    assert not (run / "report.html").exists()


def test_an_erasure_that_cannot_be_finished_stops_no_other_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of palate")

    (tmp_path / "cache" / "forgetting").mkdir(parents=True)
    (tmp_path / "cache" / "forgetting" / "1.json").touch()
    monkeypatch.setattr("palate.privacy.finish_erasures", fail)
    done = palate("list", "views")
    assert done.returncode == 0
    assert "cannot be finished yet: ZeroDivisionError: a fault of palate" in done.stderr
