"""The command line of a run goes where it names the person, however a shell writes the name."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import people

from command import palate
from palate.data import Pseudonyms, write_benchmark
from palate.privacy import forget
from palate.runs import find_run

NAMES = Pseudonyms(b"a key that only this test knows")


@pytest.mark.parametrize("user", ["o'hara", "ann o", 'so-called "al"', "ann-77"])
def test_a_name_with_quotes_goes_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "of" / user
    write_benchmark(people(), folder)
    for file in folder.glob("*.jsonl"):
        escaped = user.replace('"', r"\"")
        file.write_text(file.read_text().replace('"user_id":"bo"', f'"user_id":"{escaped}"'))
    made = palate("eval", folder, "--rm", "longest", "--view", "posts:1", "--out", tmp_path / "runs")
    assert made.returncode == 0, made.stderr
    run = find_run(tmp_path / "runs" / "latest")
    assert (run / "command.txt").is_file()
    (run / ".command.txt.4711").write_text(user)  # what a process leaves that is killed over it
    receipt = forget(user, NAMES, data=[folder], runs=[run], keep_answers=True)
    assert not list(run.glob("*command.txt*"))
    assert any(place.erased.get("command lines") == 1 for place in receipt.places)
