"""Forgetting a user in a training run: whoever was held out goes, and whoever was trained on is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from people import people

from palate.data import Pseudonyms, write_benchmark
from palate.downstream import PPO
from palate.downstream._items import ITEMS, PromptItem
from palate.downstream.ppo._run import HELD_OUT
from palate.privacy import check_receipt, forget
from palate.records import PalateError
from palate.runs import VIEWS, Appender, open_run

KEY = Pseudonyms(b"a key that only this test knows")


@pytest.fixture
def trained(every_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(every_run / "trained", tmp_path / "trained")
    return tmp_path / "trained"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def held_out(trained: Path) -> list[PromptItem]:
    return [item for item in open_run(trained).read(ITEMS) if item.held_out]


def test_a_held_out_user_goes_and_others_stay_byte_for_byte(trained: Path) -> None:
    before = contents(trained)
    assert b'"bo-3"' in before["report.html"]
    whose = {item.id: item.user_id for item in held_out(trained)}
    receipt = forget("bo", KEY, runs=[trained])
    after = contents(trained)
    staying = [line for line in before["held_out.jsonl"].splitlines() if whose[json.loads(line)["item"]] != "bo"]
    lent = [line for line in staying if b'"user_id":"bo"' in line]
    kept = after["held_out.jsonl"].splitlines()
    assert len(kept) == len(staying) == 6 and lent
    assert [line for line in kept if line in staying] == [line for line in staying if line not in lent]
    for line in (json.loads(line) for line in kept):
        assert line["texts"] and "bo" not in {one.get("user_id") for one in line["ratings"] + line["written"]}
    assert {item.user_id for item in held_out(trained)} == {"bo-1", "cy", "cy-1"}
    ids = {item.id for item in held_out(trained)}
    assert "bo-1-1" in ids and not {"bo-1", "bo-3"} & ids
    assert b'"bo-3"' not in after["report.html"] and b"chess" not in b"".join(after.values())
    ledgers = {"items.jsonl", "held_out.jsonl", "views.jsonl", "parts.jsonl"}
    changed = ledgers | {"report.html", "report.md", "results.csv", "summary.json"}
    assert all(before[name] == after[name] for name in set(before) - changed)
    summary = PPO.summarise(open_run(trained))
    assert summary.complete and summary.test_users == 3 and summary.test_items == 6
    [place] = [place for place in receipt.places if place.path == str(trained)]
    assert {Path(change.path).name for change in place.files} >= ledgers
    assert any("weights" in reason and "not trained on this user" in reason for reason in place.left)
    assert check_receipt(receipt, "bo", KEY).files < len(after)  # the policy is not searched


def test_whoever_was_trained_on_is_refused_before_anything_is_touched(trained: Path, tmp_path: Path) -> None:
    write_benchmark(people(), tmp_path / "data")
    before = contents(tmp_path)
    with pytest.raises(PalateError, match="cannot unlearn one user: delete that folder"):
        forget("ann", KEY, data=[tmp_path / "data"], runs=[trained])
    assert contents(tmp_path) == before


def test_a_held_out_user_goes_from_a_run_that_is_not_finished(trained: Path) -> None:
    lines = (trained / "held_out.jsonl").read_bytes().splitlines(keepends=True)
    (trained / "held_out.jsonl").write_bytes(lines[0])
    forget("bo", KEY, runs=[trained])
    assert "bo" not in {item.user_id for item in held_out(trained)}
    assert not any(b"chess" in content for content in contents(trained).values())


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
    assert "items.jsonl" not in [file.name for file in calls]  # what tells whose everything is goes last
    forget("bo", KEY, runs=[trained])
    assert not any(b"chess" in content for content in contents(trained).values())


def test_a_run_that_is_being_written_to_is_left_alone(trained: Path) -> None:
    writer = Appender(trained / "held_out.jsonl")
    with pytest.raises(PalateError, match="another process is writing"):
        forget("bo", KEY, runs=[trained])
    writer.close()
    forget("bo", KEY, runs=[trained])


def test_where_strangers_were_shown_what_was_made_with_this_one_goes(trained: Path) -> None:
    settings = json.loads((trained / "settings.json").read_text())
    settings["settings"]["view"] |= {"name": "swapped:posts:1", "whose": "swapped"}
    (trained / "settings.json").write_text(json.dumps(settings))
    lines = [json.loads(line) for line in (trained / "held_out.jsonl").open()]
    as_stranger = [line | {"view": "swapped:posts:1"} for line in lines]
    (trained / "held_out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in as_stranger))
    shown = {line.item for line in open_run(trained).read(VIEWS) if line.user_id == "bo" and line.draw == 0}
    receipt = forget("bo", KEY, runs=[trained])
    assert shown and not shown & {line.item for line in open_run(trained).read(HELD_OUT)}
    assert any("does not keep whose" in reason for reason in receipt.not_erased)
