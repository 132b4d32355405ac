"""Imports go down the floors of the house, never up, and torch stays in the engine."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_imports_go_down_only() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_hides_behind_an_empty_word() -> None:
    empty = {"utils", "util", "common", "helpers", "misc"}
    assert not [file for file in (ROOT / "src").rglob("*.py") if file.stem.strip("_") in empty]
