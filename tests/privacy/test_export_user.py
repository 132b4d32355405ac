"""Everything that is held on one person, in one file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from palate.cli import main
from palate.data import load_benchmark, write_benchmark
from palate.evaluation import evaluate
from palate.personal import train
from planted import planted


def test_everything_on_one_user_and_nobody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = evaluate("mini", ["longest"], ["none", "posts:2", "swapped"], out=tmp_path, limit=40).run
    file = tmp_path / "art-01-a.json"
    with pytest.raises(SystemExit) as done:
        main(["data", "export-user", "mini", "art-01-a", "--output", str(file), "--run", run])
    assert done.value.code == 0 and "5 comparisons" in capsys.readouterr().out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    held = json.loads(file.read_text())
    user = load_benchmark("mini").users["art-01-a"]
    assert [post["text"] for post in held["user"]["posts"]] == [post.text for post in user.posts]
    assert {item["user_id"] for item in held["comparisons"]} == {"art-01-a"}
    lines = held["runs"][0]["lines"]
    own = {item["id"] for item in lines["items"]}
    assert own and all(view["item"] in own or view["user_id"] == "art-01-a" for view in lines["views"])


def test_an_unknown_user_is_told_nothing_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["data", "export-user", "mini", "art-01", "--output", str(tmp_path / "x.json")])
    assert done.value.code == 2
    message = capsys.readouterr().err
    assert "no such user" in message and "art-01-" not in message
    assert not (tmp_path / "x.json").exists()


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "user.json"
    file.write_text("somebody else's export")
    file.chmod(0o644)
    command = ["data", "export-user", "mini", "art-01-a", "--output", str(file)]
    with pytest.raises(SystemExit, match="2"):
        main(command)
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "somebody else's export"
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--force"])
    assert json.loads(file.read_text())["user"]["id"] == "art-01-a"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_model_of_the_newest_run_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_benchmark(planted(couples=6, choices=6), tmp_path / "planted")
    data, user = str(tmp_path / "planted"), "user-0-asks"
    train(data, ["per-user"], features="traits", folds=2, out=tmp_path / "trained")
    model = str(tmp_path / "trained" / "latest" / "models" / "per-user")
    file = tmp_path / "user.json"
    with pytest.raises(SystemExit, match="0"):
        main(["data", "export-user", data, user, "--model", model, "--output", str(file)])
    assert "1 models" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["forget", user, "--model", model, "--dry-run"])
    assert "per-user" in capsys.readouterr().out
