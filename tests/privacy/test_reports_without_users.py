"""A report that can be handed on: nothing about any single user in any of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palate.cli import main
from palate.data import load_benchmark
from palate.evaluation import SMALLEST_GROUP, evaluate, summarise
from palate.runs import open_run, write_report

FILES = ("report.html", "report.md", "results.csv", "summary.json")


def test_nothing_about_single_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(evaluate("mini", ["longest"], ["none", "posts:2", "swapped"], out=tmp_path).run)
    mini = load_benchmark("mini")
    with pytest.raises(SystemExit) as done:
        main(["report", str(run), "--without-users", "--json"])
    assert done.value.code == 0
    shown = [json.loads(capsys.readouterr().out), *(json.loads((run / "summary.json").read_text()) for _ in "x")]
    assert all(one["user_accuracies"] == [] for one in shown)
    written = b"".join((run / name).read_bytes() for name in FILES)
    texts = [post.text.splitlines()[0] for user in mini.users.values() for post in user.posts]
    assert not [user for user in mini.users if user.encode() in written]
    assert not [item.id for item in mini.comparisons if item.id.encode() in written]
    assert not [text for text in texts if len(text) > 20 and text.encode() in written]
    assert all(slice["users"] >= SMALLEST_GROUP for slice in shown[0]["slices"])


def test_tables_never_name_a_user(tmp_path: Path) -> None:
    run = open_run(Path(evaluate("mini", ["longest"], ["none"], out=tmp_path).run))
    write_report(run, summarise(run))
    for name in ("report.md", "results.csv"):
        content = (run.folder / name).read_text()
        assert not [user for user in load_benchmark("mini").users if user in content]
