"""The command `palate audit`, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted_audits import CARD, benchmark_of, choice, run_of, with_conflicts, written

import command
from palate.audit import audit_benchmark, write_audit
from palate.records import Benchmark, Completion, User


def palate(*words: str | Path) -> command.Done:
    return command.palate("audit", *words)


def test_a_benchmark_as_table_json_and_markdown(tmp_path: Path) -> None:
    folder = written(with_conflicts(), tmp_path / "b")
    done = palate(folder, "--no-impersonal", "--output", tmp_path / "audit.md")
    assert done.returncode == 0, done.stderr
    assert "30 (30.0%)" in done.stdout and "audit.md" in done.stdout
    page = (tmp_path / "audit.md").read_text(encoding="utf-8")
    assert page.startswith("# Audit: Planted\n") and "30 (30.0%)" in page
    done = palate(folder, "--no-impersonal", "--json")
    assert json.loads(done.stdout)["conflicts"]["conflict_share"] == 0.3


def test_a_run_as_table_and_markdown(tmp_path: Path) -> None:
    run = run_of(
        {"north": 14, "south": 13, "atlantis": 2}, dict.fromkeys(("north", "south", "atlantis"), (0.6, 0.7)), tmp_path
    )
    done = palate(run, "--least", "5", "--output", tmp_path / "deep" / "audit.md", "--json")
    assert done.returncode == 0, done.stderr
    assert "atlantis" not in done.stdout + (tmp_path / "deep" / "audit.md").read_text(encoding="utf-8")
    assert json.loads(done.stdout)["least"] == 5


@pytest.mark.parametrize(
    ("make", "words", "said"),
    [
        (lambda folder: folder.mkdir(), (), "neither a run"),
        (lambda folder: None, (), "no such file or folder"),
        (lambda folder: written(with_conflicts(), folder), ("--least", "0"), "2 or more"),
        (lambda folder: written(with_conflicts(), folder), ("--users",), "of a run only"),
        (lambda folder: written(benchmark_of([User(id="a")], [choice("1", "a", 0, 0)]), folder), (), "one user only"),
        (
            lambda folder: written(
                Benchmark(
                    card=CARD,
                    users={"a": User(id="a")},
                    completions=(Completion(id="1", user_id="a", prompt="Say?", text="So."),),
                ),
                folder,
            ),
            (),
            "no comparisons, only 1 completion",
        ),
    ],
    ids=["empty folder", "nothing", "least 0", "users of a benchmark", "one user", "completions"],
)
def test_bad_input_is_refused_in_one_message(make: object, words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    make(folder)  # type: ignore[operator]
    done = palate(folder, *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.startswith("palate: ") and said in done.stderr


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    folder = written(with_conflicts(), tmp_path / "b")
    (tmp_path / "file").write_text("")
    done = palate(folder, "--no-impersonal", "--output", tmp_path / "file" / "audit.md")
    assert done.returncode == 2 and "cannot write the audit" in done.stderr


def test_a_file_that_ends_in_html_is_a_page(tmp_path: Path) -> None:
    write_audit(audit_benchmark(written(with_conflicts(), tmp_path / "b"), impersonal=False), tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "30 (30.0%)" in page and "Before you believe it" in page
