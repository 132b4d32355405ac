"""A finished run answers at once, and never with anything but what reading it again would tell."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import palate
from palate import evaluate
from palate.cli._show import show
from palate.cli.report import report
from palate.data import Pseudonyms
from palate.evaluation import Summary
from palate.privacy import forget
from palate.runs import FINISHED, open_run
from palate.runs._finished import made_by
from palate.stats import Resample

PLANTED = 12_345
"""A number of items that no run has: whoever tells it has believed finished.json."""


def measure(out: Path, *, seed: int = 0, resample: Resample = "auto", views: tuple[str, ...] = ("none",)) -> Summary:
    return evaluate("mini", ["longest", "random"], views, limit=12, seed=seed, resample=resample, out=out)


def plant(folder: Path) -> None:
    """Have finished.json tell what no reading of the ledgers would."""
    kept = json.loads((folder / FINISHED).read_bytes())
    kept["summary"]["items"] = PLANTED
    (folder / FINISHED).write_text(json.dumps(kept, separators=(",", ":"), ensure_ascii=False))


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a finished run with a planted answer."""
    folder = Path(measure(tmp_path).run)
    plant(folder)
    return folder


@pytest.fixture
def copied_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """palate's own files, copied, as those that the hash of the code is taken of."""
    own = Path(palate.__file__).parent
    copy = tmp_path / "code"
    shutil.copytree(own, copy, ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(palate, "__file__", str(copy / "__init__.py"))
    made_by.cache_clear()
    yield copy
    made_by.cache_clear()


def test_the_same_command_answers_from_what_was_kept(finished: Path) -> None:
    assert measure(finished.parent).items == PLANTED


def test_the_kept_answer_is_the_one_that_was_computed(tmp_path: Path) -> None:
    first = measure(tmp_path)
    again = measure(tmp_path)
    run = open_run(Path(first.run))
    assert again == first == run.experiment.summarise(run)


def test_a_folder_that_was_moved_tells_its_new_place(finished: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / finished.name
    moved.parent.mkdir()
    finished.rename(moved)
    again = measure(moved.parent)
    assert (again.items, again.run) == (PLANTED, str(moved))


@pytest.mark.parametrize("name", ["items.jsonl", "ratings.jsonl"])
def test_a_ledger_that_lost_a_line_is_filled_and_read_again(finished: Path, name: str) -> None:
    whole = (finished / name).read_bytes().splitlines(keepends=True)
    (finished / name).write_bytes(b"".join(whole[:-1]))
    assert measure(finished.parent).items == 12
    assert sorted((finished / name).read_bytes().splitlines(keepends=True)) == sorted(whole)


def test_a_changed_rating_changes_the_answer(finished: Path) -> None:
    file = finished / "ratings.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    longest = [line for line in lines if line["rm"] == "longest"]
    for line in longest:
        line["rating"]["scores"].reverse()
    before = json.loads((finished / FINISHED).read_bytes())["summary"]["results"][0]["accuracy"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = measure(finished.parent)
    assert again.items == 12
    assert again.results[0].accuracy == pytest.approx(1 - before)


def test_a_damaged_line_is_still_an_error(finished: Path) -> None:
    file = finished / "ratings.jsonl"
    file.write_bytes(b"{]\n" + file.read_bytes())
    with pytest.raises(palate.PalateError, match="line 1"):
        measure(finished.parent)


@pytest.mark.parametrize("file", ["stats/__init__.py", "report/page.js"])
def test_changed_code_reads_again(file: str, finished: Path, copied_code: Path) -> None:
    assert measure(finished.parent).items == PLANTED  # the copy is the same code
    made_by.cache_clear()
    with (copied_code / file).open("a") as stream:
        stream.write("\n")
    assert measure(finished.parent).items == 12
    assert measure(finished.parent).items == 12


def test_another_version_of_a_package_reads_again(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import palate.runs._finished as module

    monkeypatch.setattr(module, "environment", lambda: {"numpy": "0"})
    made_by.cache_clear()
    try:
        assert measure(finished.parent).items == 12
    finally:
        made_by.cache_clear()


def test_other_settings_and_another_seed_are_other_runs(finished: Path) -> None:
    assert measure(finished.parent, seed=1).items == 12
    assert measure(finished.parent, views=("posts:2",)).items == 12
    assert len([entry for entry in finished.parent.iterdir() if (entry / "settings.json").is_file()]) == 3


def test_another_way_to_resample_computes_again(finished: Path) -> None:
    assert measure(finished.parent, resample="users-and-items").items == 12
    assert measure(finished.parent).items == 12  # only the last answer is kept


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"made_by": "x"}', b"\xff"])
def test_a_kept_answer_that_cannot_be_read_is_passed_over(finished: Path, content: bytes) -> None:
    (finished / FINISHED).write_bytes(content)
    assert measure(finished.parent).items == 12


@pytest.mark.parametrize("name", ["report.html", "report.md", "results.csv", "summary.json"])
def test_a_report_that_was_changed_or_removed_is_written_again(tmp_path: Path, name: str) -> None:
    summary = measure(tmp_path)
    show(summary, json=True)
    file = Path(summary.run) / name
    as_written = file.read_bytes()
    for damage in (lambda: file.write_bytes(b"changed"), file.unlink):
        damage()
        show(measure(tmp_path), json=True)
        assert file.read_bytes() == as_written


def test_reports_are_not_written_twice(tmp_path: Path) -> None:
    summary = measure(tmp_path)
    show(summary, json=True)
    written = (Path(summary.run) / "report.html").stat().st_mtime_ns
    show(measure(tmp_path), json=False)
    assert (Path(summary.run) / "report.html").stat().st_mtime_ns == written


def test_without_users_holds_back_and_the_next_command_shows_again(tmp_path: Path) -> None:
    summary = measure(tmp_path)
    folder = Path(summary.run)
    user = next(iter(json.loads((folder / "items.jsonl").read_text().splitlines()[0])["user_id"].split()))
    show(summary, json=True)
    with_users = (folder / "report.html").read_bytes()
    assert user.encode() in with_users
    report(folder, without_users=True)
    assert user.encode() not in (folder / "report.html").read_bytes()
    show(measure(tmp_path), json=True, users=False)
    assert user.encode() not in (folder / "report.html").read_bytes()
    show(measure(tmp_path), json=True)
    assert (folder / "report.html").read_bytes() == with_users


def test_a_forgotten_user_is_in_no_kept_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    summary = measure(tmp_path / "runs")
    folder = Path(summary.run)
    show(summary, json=True)
    user = json.loads((folder / "items.jsonl").read_text().splitlines()[0])["user_id"]
    assert user.encode() in (folder / FINISHED).read_bytes()
    forget(user, Pseudonyms(b"key"), runs=[folder])
    assert not (folder / FINISHED).exists()
    assert [file for file in folder.rglob("*") if file.is_file() and user.encode() in file.read_bytes()] == []
    assert json.loads((folder / "summary.json").read_bytes())["items"] < 12


def test_a_repaired_run_is_read_again(finished: Path) -> None:
    file = finished / "ratings.jsonl"
    file.write_bytes(b"{]\n" + b"".join(file.read_bytes().splitlines(keepends=True)[1:]))
    report(finished, repair=True)
    assert json.loads((finished / "summary.json").read_bytes())["items"] == 12
    again = measure(finished.parent)
    assert again.items == 12 and again.complete
