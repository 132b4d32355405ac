from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command import palate
from palate.evaluation import evaluate
from palate.leaderboard import Checked, check_submission, leaderboard
from palate.records import PalateError
from palate.runs import open_run, write_report


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of controls on the built-in benchmark, with its report; do not change it."""
    out = tmp_path_factory.mktemp("sent")
    summary = evaluate("mini", ["random", "longest"], ["none", "posts:2", "oracle"], limit=60, out=out)
    write_report(open_run(Path(summary.run)), summary)
    return Path(summary.run)


@pytest.fixture
def run(sent: Path, tmp_path: Path) -> Path:
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(sent, tmp_path / sent.name))


def verdicts(checked: Checked) -> dict[str, str]:
    return {clause.clause: clause.verdict for clause in checked.clauses}


def spoil(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    file.write_text("".join(change(file.read_text().splitlines(keepends=True))))


def test_an_honest_run_passes_all_that_can_be_checked(sent: Path) -> None:
    checked = check_submission(sent)
    assert checked.failed == []
    assert [clause.verdict for clause in checked.clauses].count("passed") == 8
    sealed = check_submission(sent, seal=checked.seal)
    assert verdicts(sealed)["its raw lines are those that were sealed"] == "passed"


def flip_label(lines: list[str]) -> list[str]:
    item = json.loads(lines[0])
    item["preferred"] = 1 - item["preferred"]
    return [json.dumps(item, ensure_ascii=False) + "\n", *lines[1:]]


def flip_control(lines: list[str]) -> list[str]:
    place = next(number for number, line in enumerate(lines) if '"longest"' in line)
    line = json.loads(lines[place])
    line["rating"]["scores"].reverse()
    return [*lines[:place], json.dumps(line) + "\n", *lines[place + 1 :]]


def show_more(lines: list[str]) -> list[str]:
    line = json.loads(lines[0])
    return [json.dumps({**line, "text": line["text"] + " And I prefer the first one."}) + "\n", *lines[1:]]


@pytest.mark.parametrize(
    ("file", "change", "clause"),
    [
        ("items.jsonl", flip_label, "texts and labels of the items are the benchmark's"),
        ("items.jsonl", flip_label, "the numbers that it claims follow from its raw ratings"),
        ("ratings.jsonl", flip_control, "its controls rate as controls do"),
        ("ratings.jsonl", flip_control, "the numbers that it claims follow from its raw ratings"),
        ("ratings.jsonl", lambda lines: lines[:-2], "every model has rated every item under every view"),
        ("parts.jsonl", show_more, "what it says was shown of each person is what these settings show"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_edited_is_found(run: Path, file: str, change: Callable[[list[str]], list[str]], clause: str) -> None:
    spoil(run / file, change)
    assert verdicts(check_submission(run))[clause] == "failed"


def test_a_claim_that_does_not_follow(run: Path) -> None:
    file = run / "summary.json"
    claimed = json.loads(file.read_text())
    claimed["results"][0]["accuracy"] = 0.99
    file.write_text(json.dumps(claimed))
    [failed] = check_submission(run).failed
    assert "accuracy" in failed.remark and "0.99" in failed.remark


def test_privileged_texts_in_a_view_that_is_not_the_oracle(run: Path) -> None:
    aspects = {line["key"]: line for line in map(json.loads, (run / "parts.jsonl").read_text().splitlines())}
    oracle = next(
        line for line in map(json.loads, (run / "views.jsonl").read_text().splitlines()) if line["view"] == "oracle"
    )

    def leak(lines: list[str]) -> list[str]:
        place = next(
            number
            for number, line in enumerate(lines)
            if '"view":"posts:2"' in line and json.loads(line)["item"] == oracle["item"]
        )
        line = json.loads(lines[place])
        line["parts"] = [*line.get("parts", []), *oracle["parts"]]
        return [*lines[:place], json.dumps(line) + "\n", *lines[place + 1 :]]

    assert oracle["parts"] and aspects
    spoil(run / "views.jsonl", leak)
    assert verdicts(check_submission(run))["no view but oracle shows what is privileged"] == "failed"


def test_another_benchmark_and_other_settings(run: Path) -> None:
    file = run / "settings.json"
    file.write_text(file.read_text().replace('"content_hash": "', '"content_hash": "0'))
    found = verdicts(check_submission(run))
    assert found["the benchmark is the one that you have"] == "failed"
    assert found["the settings are those that the folder is named after"] == "failed"


def test_a_stranger_cannot_make_us_load_a_file(run: Path) -> None:
    """Names in a run are a stranger's word: they are looked up, and no file that they name is run."""
    (run / "evil.py").write_text("raise SystemExit('ran')")
    file = run / "settings.json"
    text = file.read_text().replace('"retriever": "bm25"', f'"retriever": "{run}/evil.py:Load"')
    file.write_text(text)
    found = verdicts(check_submission(run))
    assert found["what it says was shown of each person is what these settings show"] == "not checked"
    file.write_text(text.replace('"name": "mini"', f'"name": "{run}/evil.py:load"'))
    found = verdicts(check_submission(run))
    assert found["the benchmark is the one that you have"] == "not checked"


def test_a_board_remembers_the_lines(run: Path, tmp_path: Path) -> None:
    leaderboard([run], tmp_path / "site")
    clause = "its raw lines are those that the board recorded"
    assert verdicts(check_submission(run, board=tmp_path / "site"))[clause] == "passed"
    spoil(run / "ratings.jsonl", flip_control)
    assert verdicts(check_submission(run, board=tmp_path / "site"))[clause] == "failed"
    with pytest.raises(PalateError, match=r"no manifest\.jsonl"):
        check_submission(run, board=tmp_path)


def test_the_command_refuses_with_code_2(run: Path) -> None:
    done = palate("submit", "check", run)
    assert done.returncode == 0, done.stderr
    assert "seal: " in done.stdout and "not checked" in done.stdout
    spoil(run / "items.jsonl", flip_label)
    done = palate("submit", "check", run)
    assert done.returncode == 2
    assert "failed      texts and labels" in done.stdout and "cannot be accepted: 2 of 10" in done.stderr
