"""`palate eval` and `palate report`, as a person and as a program use them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import command

EVAL = (
    "eval",
    "mini",
    "--rm",
    "overlap",
    "--rm",
    "longest",
    "--view",
    "none",
    "--view",
    "posts:3",
    "--view",
    "swapped",
)


def palate(*words: str, cwd: Path) -> command.Done:
    done = command.palate(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    palate(*EVAL, cwd=folder)
    return folder


def test_json_is_one_object_and_nothing_else(place: Path) -> None:
    done = palate(*EVAL, "--json", cwd=place)
    found = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    keys = {"rm", "view", "of", "n", "users", "accuracy", "low", "high", "ties", "unscored"}
    assert all(keys <= set(result) for result in found["results"])
    assert [(r["rm"], r["view"]) for r in found["results"][:3]] == [
        ("overlap", "none"),
        ("overlap", "posts:3"),
        ("overlap", "swapped"),
    ]
    assert {(g["view"], g["over"]) for g in found["gains"]} == {
        ("posts:3", "none"),
        ("posts:3", "swapped"),
        ("swapped", "none"),
    }
    assert Path(place, found["run"], "ratings.jsonl").exists()


def test_the_table_is_plain_when_it_is_not_a_terminal(place: Path) -> None:
    done = palate(*EVAL, cwd=place)
    assert "\x1b" not in done.stdout
    assert "overlap" in done.stdout and "50.0%" in done.stdout
    assert "report.html" in done.stdout.splitlines()[-1]
    assert done.stderr == ""


def test_the_report_needs_the_run_and_nothing_else(place: Path) -> None:
    [run] = place.glob("runs/*")
    whole = palate("report", str(run), "--json", cwd=place).stdout
    written = {name: (run / name).read_bytes() for name in ("report.html", "report.md", "results.csv", "summary.json")}
    for name in written:
        (run / name).unlink()
    assert palate("report", str(run), "--json", cwd=place).stdout == whole
    assert written == {name: (run / name).read_bytes() for name in written}


def test_every_form_of_the_report_says_the_same(place: Path) -> None:
    [run] = place.glob("runs/*")
    results = json.loads((run / "summary.json").read_text())["results"]
    rows = list(csv.DictReader((run / "results.csv").read_text().splitlines()))
    assert [float(row["accuracy"]) for row in rows] == pytest.approx([r["accuracy"] for r in results], abs=1e-6)
    for text in ((run / "report.md").read_text(), (run / "report.html").read_text()):
        assert all(f"{100 * r['accuracy']:.1f}" in text for r in results)


def test_compare_says_which_differences_are_real(place: Path) -> None:
    words = ("--view", "none", "--view", "posts:3", "--json")
    one = json.loads(palate("eval", "mini", "--rm", "overlap", *words, cwd=place).stdout)["run"]
    other = json.loads(palate("eval", "mini", "--rm", "random", *words, cwd=place).stdout)["run"]
    found = json.loads(palate("compare", one, other, "--controls", "--json", cwd=place).stdout)
    assert {(d["view"], d["q"] < 0.05) for d in found["differences"]} == {("none", False), ("posts:3", True)}
    assert "real" in palate("compare", one, other, "--controls", cwd=place).stdout


def test_check_prints_the_clauses_of_the_contract(place: Path) -> None:
    assert palate("check", "first", cwd=place).stdout.count("ok  ") == 7


def test_help_is_quick_because_it_imports_little() -> None:
    program = (
        "import sys; from palate.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'numpy', 'scipy', 'bm25s', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "eval" in done.stdout


def test_an_evaluation_without_the_encoder_imports_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys; import palate\n"
        f"palate.evaluate('mini', ['overlap'], ['none', 'posts:3'], limit=4, out={str(tmp_path)!r})\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
