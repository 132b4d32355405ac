"""What stands in a terminal of 80 columns, where standard output and standard error share the screen."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import GUARD, palate
from palate.cli._lines import wrapped
from palate.cli._show import progress_bar
from palate.report import Table, make_console, print_table

ROWS, COLUMNS = 40, 80


def screen_of(*words: str, cwd: Path, code: int = 0) -> str:
    """Everything a command writes to a terminal, control sequences included."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "palate", *words],
        cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    written = bytearray()
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    status = process.wait(GUARD)
    assert status == code, written.decode()
    return written.decode()


class TestResultAndProgress:
    @pytest.mark.parametrize("again", [False, True])
    def test_no_progress_is_drawn_into_the_tables(self, tmp_path: Path, again: bool) -> None:
        words = ("eval", "mini", "--rm", "overlap", "--view", "none", "--limit", "6")
        if again:
            palate(*words, cwd=tmp_path)
        said = screen_of(*words, cwd=tmp_path)
        before, _, tables = said.partition("palate mini: twins")
        assert "writing the report" in before
        assert "Report:" in tables
        assert "writing the report" not in tables

    def test_a_long_description_leaves_room_for_how_much_is_done(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(COLUMNS))
        with progress_bar() as progress:
            progress("judge:my-model rates, seeing judgements:4 (44,007 tokens in, 360 out, 3 retries)", 12, 40)
        last = capsys.readouterr().err
        assert "12/40" in last
        assert "left" in last
        assert "judge:my-model rates" in last


class TestErrors:
    def test_no_word_and_no_command_is_broken(self, tmp_path: Path) -> None:
        name = "a-plan-of-a-long-name-that-fills-much-of-a-line.toml"
        said = screen_of("build", name, cwd=tmp_path, code=2)
        words = (
            f"palate: there is no plan {name}.\r\nBegin with an example:\r\npalate build {name} --example stackexchange"
        )
        assert words in said

    def test_findings_about_data_are_broken_between_words(self, tmp_path: Path) -> None:
        (tmp_path / "prefs.csv").write_text("user,prompt,response_a,response_b,label\nann,Tea?,Green.,Black.,\n")
        said = re.sub(r"\x1b\[[0-9;]*m", "", screen_of("data", "check", "prefs.csv", cwd=tmp_path, code=2))
        lines = said.splitlines()
        assert "prefs.csv,user=user,prompt=prompt,response_a=response_a,response_b=response_b,label=label" in lines
        assert [line for line in lines if len(line) > COLUMNS and " " in line] == []
        assert "error prefs.csv:2: field 'label': is empty; use A, B or tie, or say what the\r\nlabels are" in said

    @given(st.text("ab `'\".,:;\n") | st.sampled_from(["see `palate runs`, or run palate eval mini --rm x; then y"]))
    def test_nothing_but_white_space_changes(self, text: str) -> None:
        lines = wrapped(text, 12)
        assert lines.split() == text.split()
        assert "`palate runs`" in lines or "`palate runs`" not in text
        assert wrapped(text, len(text)) == "\n".join(line.rstrip() for line in text.split("\n"))


def test_a_view_of_several_parts_is_broken_between_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    titles = ("model", "view", "worse", "by\nchance", "clearly\nworse", "by\nchance", "q", "users")
    row = ("bradley-terry", "judgements:16+demographics", "0", "0.0", "0", "0.0", "1.000", "60")
    print_table(Table(title="Users served worse", titles=titles, words=2, rows=[row]), make_console())
    said = capsys.readouterr().out.split()
    assert "judgements:16+" in said and "demographics" in said and "1.000" in said
