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
from palate.privacy import check_receipt, forget
from palate.records import PalateError
from palate.runs import Appender, open_run

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
    assert b'"bo-3"' in before["report.html"]
    receipt = forget("bo", KEY, runs=[trained])
    after = contents(trained)
    own = {"bo-1", "bo-3"}
    staying = [line for line in before["held_out.jsonl"].splitlines() if json.loads(line)["item"] not in own]
    lent = [line for line in staying if b'"user_id":"bo"' in line]
    kept = after["held_out.jsonl"].splitlines()
    assert len(kept) == len(staying) == 6 and lent
    assert [line for line in kept if line in staying] == [line for line in staying if line not in lent]
    for line in (json.loads(line) for line in kept):
        assert line["texts"] and "bo" not in {one.get("user_id") for one in line["ratings"] + line["written"]}
    items = before["items.jsonl"].splitlines()
    assert after["items.jsonl"].splitlines() == [line for line in items if json.loads(line)["user_id"] != "bo"]
    assert b'"bo-3"' not in after["report.html"] and b"chess" not in b"".join(after.values())
    ledgers = {"held_out.jsonl", "views.jsonl", "parts.jsonl", "items.jsonl"}
    changed = ledgers | {"summary.json", "report.html", "report.md", "results.csv"}
    untouched = set(before) - changed
    assert all(before[name] == after[name] for name in untouched)
    summary = PPO.summarise(open_run(trained))
    assert summary.complete and summary.test_users == 3 and summary.test_items == 6
    [place] = [place for place in receipt.places if place.path == str(trained)]
    assert place.erased["held-out lines"] == place.erased["items"] == 2
    entries = sum(line.count(b'"user_id":"bo"') for line in lent)
    assert place.erased["entries of held-out lines"] == entries > 0
    assert place.erased["views"] > 2 and place.erased["parts of profiles"] > 0
    assert {Path(change.path).name for change in place.files} == set(before) - untouched
    assert any("weights" in reason and "not trained on this user" in reason for reason in place.left)
    assert check_receipt(receipt, "bo", KEY).files < len(after)  # the policy is not searched


def test_whoever_was_trained_on_is_refused_before_anything_is_touched(trained: Path, tmp_path: Path) -> None:
    write_benchmark(people(), tmp_path / "data")
    before = contents(tmp_path)
    with pytest.raises(PalateError, match="cannot unlearn one user: delete that folder"):
        forget("ann", KEY, data=[tmp_path / "data"], runs=[trained])
    assert contents(tmp_path) == before


def test_without_weights_whoever_was_trained_on_goes_too(trained: Path) -> None:
    shutil.rmtree(trained / "policy")
    receipt = forget("ann", KEY, runs=[trained])
    assert not any(b'"user_id":"ann"' in content for content in contents(trained).values())
    [place] = [place for place in receipt.places if place.path == str(trained)]
    assert any("a trace of that may be in it" in reason for reason in place.left)
    assert PPO.summarise(open_run(trained)).complete


@pytest.mark.parametrize("judged", [0, 1, 7])
def test_a_held_out_user_goes_from_a_run_that_is_not_finished(trained: Path, judged: int) -> None:
    lines = (trained / "held_out.jsonl").read_bytes().splitlines(keepends=True)
    (trained / "held_out.jsonl").write_bytes(b"".join(lines[:judged]))
    forget("bo", KEY, runs=[trained])
    assert not any(b"chess" in content or b'"user_id":"bo"' in content for content in contents(trained).values())
    with pytest.raises(PalateError, match="cannot unlearn"):
        forget("ann", KEY, runs=[trained])


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


@pytest.mark.parametrize("files", [1, 2, 3, 4])
def test_broken_off_between_two_files_it_can_be_called_again(
    trained: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    real, calls = os.replace, []

    class Broken(BaseException):
        pass

    def stopped(self: Path, target: Path) -> Path:
        if target.suffix == ".jsonl":  # after the journal
            calls.append(target)
            if len(calls) == files:
                raise Broken
        real(self, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(Broken):
            forget("bo", KEY, runs=[trained])
    order = ["held_out.jsonl", "views.jsonl", "parts.jsonl", "items.jsonl"]
    assert [file.name for file in calls] == order[:files]
    assert not (trained / "report.html").exists()  # no report names the user
    forget("bo", KEY, runs=[trained])
    assert not any(b"chess" in content for content in contents(trained).values())


def test_a_run_that_is_being_written_to_is_left_alone(trained: Path) -> None:
    writer = Appender(trained / "held_out.jsonl")
    before = (trained / "held_out.jsonl").read_bytes()
    with pytest.raises(PalateError, match=r"another process is writing.*the next palate command finishes it"):
        forget("bo", KEY, runs=[trained])
    assert (trained / "held_out.jsonl").read_bytes() == before
    writer.close()
    forget("bo", KEY, runs=[trained])


def test_where_strangers_were_shown_all_that_was_written_goes(trained: Path) -> None:
    settings = json.loads((trained / "settings.json").read_text())
    settings["settings"]["view"] |= {"name": "swapped", "whose": "swapped"}
    (trained / "settings.json").write_text(json.dumps(settings))
    receipt = forget("bo", KEY, runs=[trained])
    assert (trained / "held_out.jsonl").read_bytes() == b""
    assert PPO.summarise(open_run(trained)).test_users == 3  # whose prompts are still to be judged
    assert any("does not keep whose" in reason for reason in receipt.not_erased)
