"""What `palate data ...` prints, and with which code it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palate.cli import main
from palate.data import json_schemas, load_benchmark


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["data", *arguments])
    except SystemExit as left:
        code = int(left.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert "mini" in out and "personalized-rewardbench" in out and "Apache-2.0" in out
    listed = json.loads(run(capsys, "list", "--json")[1])
    assert listed[0]["name"] == "mini" and listed[0]["available"] is True


def test_list_cuts_no_name_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "list")
    assert "chatbot-arena-personalized" in out and "…" not in out and "here" in out
    assert max(map(len, out.splitlines())) <= 80


def test_show_gives_the_card_the_numbers_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "mini")
    assert code == 0
    assert "300, each of 2 responses" in out and "only the oracle sees this" in out
    shown = json.loads(run(capsys, "show", "mini", "--json")[1])
    assert shown["summary"]["content_hash"] == load_benchmark("mini").content_hash


def test_show_finds_one_item_and_one_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert "response 0, preferred" in run(capsys, "show", "mini", "--item", "art-01-q1-b")[1]
    assert "post art-01-a-h1 2023-05-14" in run(capsys, "show", "mini", "--user", "art-01-a")[1]
    assert json.loads(run(capsys, "show", "mini", "--user", "art-01-a", "--json")[1])["id"] == "art-01-a"
    code, _, err = run(capsys, "show", "mini", "--item", "nothing")
    assert code == 2 and "has no item 'nothing'; ids look like 'art-01-q1-a'" in err


def test_markup_in_the_data_is_printed_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    choice = {
        "prompt": "[bold]Tea[/nonsense]?",
        "response_A": "[red]",
        "response_B": "[/]",
        "chosen_response": "A",
    }
    path = tmp_path / "user.json"
    path.write_text(json.dumps({"user_id": "[b]", "preferences": [choice], "values": ["[/x]"]}))
    code, out, _ = run(capsys, "show", str(path))
    assert code == 0 and "[bold]Tea[/nonsense]?" in out and "[/]" in out
    assert run(capsys, "show", str(path), "--user", "[b]")[0] == 0


def test_check_leaves_with_2_for_errors_and_0_for_warnings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "check", "mini")[:2] == (0, "0 errors, 0 warnings\n")
    choice = {"prompt": "?", "response_A": "a", "response_B": "b", "chosen_response": "A"}
    path = tmp_path / "users.jsonl"
    path.write_text(json.dumps({"user_id": "ann", "preferences": [choice]}) + "\n")
    code, out, _ = run(capsys, "check", str(path))
    assert code == 0 and "only one user" in out and out.endswith("0 errors, 1 warning\n")
    path.write_text(path.read_text() + "{\n")
    code, out, _ = run(capsys, "check", str(path))
    assert code == 2 and f"error {path}:2: broken JSON" in out.replace("\n", "")
    code, out, _ = run(capsys, "check", str(path), "--json")
    assert code == 2 and json.loads(out)[0]["line"] == 2


def test_convert_writes_a_folder_that_loads_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    code, out, _ = run(capsys, "convert", "mini", str(folder))
    assert code == 0 and "60 users, 300 comparisons, 0 completions" in out.replace("\n", " ")
    assert load_benchmark(folder).content_hash == load_benchmark("mini").content_hash
    assert run(capsys, "convert", "mini", str(folder))[0] == 0
    (tmp_path / "thesis.tex").write_text("...")
    code, _, err = run(capsys, "convert", "mini", str(tmp_path))
    assert code == 2 and "not empty and not a benchmark" in err
    assert run(capsys, "convert", "mini", str(tmp_path), "--force")[0] == 0


def test_schema_prints_or_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert json.loads(run(capsys, "schema", "card")[1]) == json_schemas()["card"]
    assert run(capsys, "schema", "--output", str(tmp_path))[0] == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(json_schemas())
    code, _, err = run(capsys, "schema", "user")
    assert code == 2 and "Did you mean 'users'?" in err


def test_a_wrong_name_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "show", "mimi")
    assert code == 2 and err.startswith("palate: unknown benchmark 'mimi'. Did you mean 'mini'?")
