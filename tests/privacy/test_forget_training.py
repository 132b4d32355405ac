"""Forgetting a user in a training run: whoever was held out goes, and whoever was trained on is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from people import people

from palate.data import Pseudonyms, write_benchmark
from palate.downstream.ppo._run import PpoRun
from palate.downstream.ppo._summary import summarise_ppo
from palate.privacy import check_receipt, forget
from palate.records import PalateError
from palate.runs import Appender

KEY = Pseudonyms(b"a key that only this test knows")


@pytest.fixture
def trained(every_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(every_run / "trained", tmp_path / "trained")
    return tmp_path / "trained"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_held_out_user_goes_and_others_stay_byte_for_byte(trained: Path) -> None:
    before = contents(trained)
    assert b'"bo-3"' in before["summary.json"]
    receipt = forget("bo", KEY, runs=[trained])
    after = contents(trained)
    staying = [line for line in before["held_out.jsonl"].splitlines() if json.loads(line)["user_id"] != "bo"]
    lent = [line for line in staying if b'"user_id":"bo"' in line]
    kept = after["held_out.jsonl"].splitlines()
    assert len(kept) == len(staying) == 6 and lent
    assert [line for line in kept if line in staying] == [line for line in staying if line not in lent]
    for line in (json.loads(line) for line in kept):
        assert line["texts"] and "bo" not in {one.get("user_id") for one in line["ratings"] + line["written"]}
    split = PpoRun.open(trained).split()
    assert split.test_users == ["bo-1", "cy", "cy-1"] and "bo-1-1" in split.test_items
    assert not {"bo-1", "bo-3"} & set(split.test_items)
    assert b'"bo-3"' not in after["summary.json"] and b"chess" not in b"".join(after.values())
    changed = {"held_out.jsonl", "views.jsonl", "split.json", "summary.json", "report.html", "report.md"}
    untouched = set(before) - changed
    assert all(before[name] == after[name] for name in untouched)
    summary = summarise_ppo(PpoRun.open(trained))
    assert summary.complete and summary.test_users == 3 and summary.test_items == 6
    [place] = [place for place in receipt.places if place.path == str(trained)]
    assert place.erased["held-out lines"] == 2 and set(place.erased) == {"held-out lines", "controls", "views"}
    assert {Path(change.path).name for change in place.files} == set(before) - untouched
    assert any("weights" in reason and "not trained on this user" in reason for reason in place.left)
    assert check_receipt(receipt, "bo", KEY).files < len(after)  # the policy is not searched


def test_whoever_was_trained_on_is_refused_before_anything_is_touched(trained: Path, tmp_path: Path) -> None:
    write_benchmark(people(), tmp_path / "data")
    before = contents(tmp_path)
    with pytest.raises(PalateError, match="cannot unlearn one user: delete that folder"):
        forget("ann", KEY, data=[tmp_path / "data"], runs=[trained])
    assert contents(tmp_path) == before


def test_a_run_that_is_not_finished_is_refused(trained: Path) -> None:
    lines = (trained / "held_out.jsonl").read_bytes().splitlines(keepends=True)
    (trained / "held_out.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(PalateError, match="not finished"):
        forget("bo", KEY, runs=[trained])
    assert (trained / "held_out.jsonl").read_bytes() == b"".join(lines[:-1])


def test_a_user_of_neither_side_changes_nothing(trained: Path) -> None:
    before = contents(trained)
    with pytest.raises(PalateError, match="no such user"):
        forget("b", KEY, runs=[trained])
    assert contents(trained) == before


def test_a_dry_run_touches_nothing_and_says_the_same(trained: Path) -> None:
    before = contents(trained)
    told = forget("bo", KEY, runs=[trained], dry_run=True)
    assert contents(trained) == before
    assert [place.erased for place in told.places] == [p.erased for p in forget("bo", KEY, runs=[trained]).places]


def test_broken_off_between_two_files_it_can_be_called_again(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.replace, []

    class Broken(BaseException):
        pass

    def stopped(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 2:
            raise Broken
        real(self, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(Broken):
            forget("bo", KEY, runs=[trained])
    assert [file.name for file in calls] == ["split.json", "views.jsonl"]
    assert not (trained / "summary.json").exists()  # no report names the user
    forget("bo", KEY, runs=[trained])
    assert not any(b"chess" in content for content in contents(trained).values())


def test_a_run_that_is_being_written_to_is_left_alone(trained: Path) -> None:
    writer = Appender(trained / "held_out.jsonl")
    with pytest.raises(PalateError, match="another process is writing"):
        forget("bo", KEY, runs=[trained])
    writer.close()
    forget("bo", KEY, runs=[trained])


def test_where_strangers_were_shown_all_that_was_written_goes(trained: Path) -> None:
    settings = json.loads((trained / "settings.json").read_text())
    settings["settings"]["view"] |= {"name": "swapped", "whose": "swapped"}
    (trained / "settings.json").write_text(json.dumps(settings))
    receipt = forget("bo", KEY, runs=[trained])
    assert not PpoRun.open(trained).held_out() and not PpoRun.open(trained).split().test_users
    assert any("does not keep whose" in reason for reason in receipt.not_erased)
