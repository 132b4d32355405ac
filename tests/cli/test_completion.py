"""Completion with Tab: what a shell offers once it has read the script, and that nothing else is touched."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from command import palate


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(palate("completion", "bash").stdout)

    def offered(*words: str) -> set[str]:
        given = " ".join(f"'{word}'" for word in words)
        program = f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _palate; echo ${{COMPREPLY[*]}}"
        shell = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
        return set(shell.stdout.split())

    assert offered("palate", "ev") == {"eval"}
    assert {"--rm", "--view", "--seed"} <= offered("palate", "eval", "--")
    assert {"check", "convert"} <= offered("palate", "data", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_a_file_holds_what_is_printed_and_no_start_up_file_is_touched(tmp_path: Path, shell: str) -> None:
    home, script = tmp_path / "home", tmp_path / "new" / "script"
    home.mkdir()
    done = palate("completion", shell, "--output", script, HOME=str(home), XDG_DATA_HOME=str(home))
    assert done.returncode == 0 and done.stdout == ""
    assert script.read_text() == palate("completion", shell, HOME=str(home)).stdout
    assert "eval" in script.read_text() and not list(home.iterdir())


def test_what_cannot_be_written_and_an_unknown_shell_are_said(tmp_path: Path) -> None:
    done = palate("completion", "bash", "--output", tmp_path)
    assert done.returncode == 2 and "cannot write the completion" in done.stderr
    assert palate("completion", "tcsh").returncode == 2
