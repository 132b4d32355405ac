"""TOML that Python's own reader gives up on with another error than the one for bad TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import palate

CONTENTS = {"deep": "seed = " + "[" * 5000 + "]" * 5000, "long": "seed = " + "9" * 5000}
COMMANDS = (
    ("eval", "mini", "--rm", "longest", "--config"),
    ("study",),
    ("build",),
    ("serve", "--rm", "longest", "--token-file"),
)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_it_is_refused_in_a_sentence(tmp_path: Path, words: tuple[str, ...], content: str) -> None:
    (tmp_path / "file.toml").write_text(CONTENTS[content])
    told = palate(*words, "file.toml", cwd=tmp_path)
    assert told.returncode == 2, told.stderr
    assert "file.toml" in told.stderr and "Traceback" not in told.stderr
