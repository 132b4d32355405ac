"""What stands in a terminal of 80 columns, where standard output and standard error share the screen."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from command import GUARD, palate
from palate.cli._show import progress_bar
from palate.report import Table, make_console, print_table

ROWS, COLUMNS = 40, 80


def screen_of(*words: str, cwd: Path) -> str:
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
    assert status == 0, written.decode()
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


def test_a_view_of_several_parts_is_broken_between_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    titles = ("model", "view", "worse", "by\nchance", "clearly\nworse", "by\nchance", "q", "users")
    row = ("bradley-terry", "judgements:16+demographics", "0", "0.0", "0", "0.0", "1.000", "60")
    print_table(Table(title="Users served worse", titles=titles, words=2, rows=[row]), make_console())
    said = capsys.readouterr().out.split()
    assert "judgements:16+" in said and "demographics" in said and "1.000" in said
