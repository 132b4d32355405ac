"""Bad input gets one clear message and exit code 2: no traceback, no silent guess, nothing lost."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

USER = {"user_id": "ann", "posts": [{"id": "1", "text": "I like tea."}]}
COMPARISON = {"id": "q", "user_id": "ann", "question": "Drink?", "chosen": "Tea.", "rejected": "Coffee."}

Palate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def palate(tmp_path: Path) -> Palate:
    """Runs the real command in an empty folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "palate", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    return run


def folder(path: Path, users: list[object], comparisons: list[object]) -> Path:
    path.mkdir()
    for name, rows in (("users", users), ("comparisons", comparisons)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("palate: ")
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "minni"), ("unknown benchmark 'minni'", "'mini'")),
        (("eval", "./nowhere"), ("no such file or folder",)),
        (("eval", "mini", "--rm", "embeding"), ("Did you mean 'embedding'",)),
        (("eval", "mini", "--rm", "random", "--view", "post:5"), ("Did you mean 'posts'",)),
        (("eval", "mini", "--rm", "random", "--retriever", "bm52"), ("Did you mean 'bm25'",)),
        (("eval", "mini", "--rm", "random", "--budget", "lots"), ("words:300",)),
        (("eval", "mini", "--rm", "random", "--limit", "0"), ("number of items from 1",)),
        (("eval", "mini", "--rm", "random", "--rm", "random"), ("named twice",)),
        (("eval", "mini", "--limit", "many"), ("many",)),
        (("eval",), ("BENCHMARK",)),
        (("evel", "mini"), ("evel",)),
        (("report", "./nowhere"), ("is not a run",)),
        (("compare", "./nowhere", "./nowhere-else"), ("is not a run",)),
        (("check", "embeding"), ("Did you mean 'embedding'",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_wrong_name_is_met_with_the_nearest_right_one(
    palate: Palate, words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    refused(palate(*words), *said)


def test_broken_json_names_the_file_and_the_line(palate: Palate, tmp_path: Path) -> None:
    rows = [COMPARISON | {"id": f"q{n}"} for n in range(9)]
    held = folder(tmp_path / "mine", [USER], rows)
    lines = (held / "comparisons.jsonl").read_text().splitlines()
    lines[6] = lines[6][:20]
    (held / "comparisons.jsonl").write_text("\n".join(lines) + "\n")
    refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl:7")


def test_a_field_of_the_wrong_type_is_named(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON, COMPARISON | {"id": "r", "question": 5}])
    refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl:2", "question")


def test_an_empty_file(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [])
    refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl")


def test_one_user_only_has_no_stranger(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON])
    refused(palate("eval", "mine", "--rm", "random", "--view", "swapped:posts:1"), "one user only")
    assert palate("eval", "mine", "--rm", "random").returncode == 0


def test_a_plug_in_that_raises_says_where(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import math\n\nclass Mine:\n    name = 'mine'\n\nmath.sqrt(-1)\n")
    refused(palate("eval", "mini", "--rm", "./mine.py:Mine"), "ValueError", "mine.py, line 6")


def test_a_plug_in_that_raises_while_rating_says_where(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def rate(self, asks):\n        return asks[0].nothing\n"
    )
    refused(palate("eval", "mini", "--rm", "./mine.py:Mine"), "AttributeError", "mine.py, line 4", "is kept")


def test_a_folder_that_cannot_be_written(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file stands where the folder should be")
    refused(palate("eval", "mini", "--rm", "random"), "cannot write", "--out")


@pytest.mark.skipif(os.name != "posix" or not Path("/proc/1").exists(), reason="needs a read-only file system")
def test_a_read_only_disk(palate: Palate) -> None:
    refused(palate("eval", "mini", "--rm", "random", "--out", "/proc/palate"), "cannot write", "--out")


def test_settings_changed_under_an_interrupted_run(palate: Palate, tmp_path: Path) -> None:
    words = ("eval", "mini", "--rm", "random", "--limit", "4")
    assert palate(*words).returncode == 0
    [settings] = tmp_path.glob("runs/*/settings.json")
    settings.write_text(settings.read_text().replace('"limit": 4', '"limit": 5'))
    refused(palate(*words), "has been changed")


def test_odd_names_are_only_names(palate: Palate, tmp_path: Path) -> None:
    odd = "Zoë/../[red]\u202e<b>\U0001f600"
    held = folder(
        tmp_path / "ma cuisine, été",
        [USER | {"user_id": odd}, USER | {"user_id": "../bob"}],
        [COMPARISON | {"id": f"{odd}?", "user_id": odd, "category": odd}, COMPARISON | {"user_id": "../bob"}],
    )
    done = palate("eval", str(held), "--rm", "longest", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    assert Path(run).parent == Path("runs")
    assert palate("eval", str(held), "--rm", "longest").returncode == 0


def test_ten_megabytes_in_one_response(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON, COMPARISON | {"id": "long", "chosen": "word " * 2_000_000}])
    refused(palate("eval", "mine", "--rm", "longest"), "comparisons.jsonl:2", "10,000,000 characters")
