from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from boards import HOSTILE

from command import palate
from palate.evaluation import compare
from palate.leaderboard import list_runs
from palate.leaderboard._side_by_side import compare_runs
from palate.records import PalateError
from tiny_models import TinyModels


class TestRuns:
    def test_kind_benchmark_models_and_whether_complete(self, runs: Path) -> None:
        found = list_runs(runs)
        assert {(run.kind, run.benchmark, run.complete) for run in found} == {("eval", "drinks", True)}
        assert sorted(run.models[0] for run in found) == sorted(["sharp", "northblind", HOSTILE])

    def test_unfinished_and_unreadable_runs_are_told_from_the_others(self, runs: Path, tmp_path: Path) -> None:
        shutil.copytree(runs, tmp_path / "runs")
        one, two, three = sorted(path for path in (tmp_path / "runs").iterdir())
        (one / "settings.json").write_text("{}")
        lines = (two / "ratings.jsonl").read_text().splitlines(keepends=True)
        (two / "ratings.jsonl").write_text("".join(lines[:-1]))
        states = {Path(run.run).name: (run.complete, bool(run.fault)) for run in list_runs(tmp_path / "runs")}
        assert states == {one.name: (None, True), two.name: (False, False), three.name: (True, False)}

    def test_the_command_prints_text_alone(self, runs: Path) -> None:
        done = palate("runs", runs, COLUMNS="160")
        assert done.returncode == 0 and "northblind" in done.stdout and "\x1b" not in done.stdout
        assert len(json.loads(palate("runs", runs, "--json").stdout)) == 3
        assert palate("runs", runs / "nowhere").returncode == 2

    def test_a_narrow_terminal_cuts_no_name_and_no_date(self, runs: Path) -> None:
        lines = palate("runs", runs, COLUMNS="80").stdout
        assert "…" not in lines and max(map(len, lines.splitlines())) <= 80
        for run in list_runs(runs):
            assert Path(run.run).name in lines and run.date[:16].replace("T", " ") in lines

    def test_without_runs_it_says_how_to_make_one(self, tmp_path: Path) -> None:
        done = palate("runs", cwd=tmp_path)
        assert done.returncode == 2 and "palate eval mini" in done.stderr


class TestCompare:
    def test_three_runs_at_once(self, runs: Path) -> None:
        found = compare(*sorted(runs.iterdir()))
        assert len(found.runs) == 3 and found.items == 240
        pairs = {frozenset((row.rm, row.than)) for row in found.differences}
        assert frozenset(("sharp", "northblind")) in pairs and frozenset(("sharp", "middling")) in pairs
        assert frozenset(("sharp", "sharper")) not in pairs  # of one run; its own report compares them

    def test_one_run_is_not_enough(self, runs: Path) -> None:
        with pytest.raises(PalateError, match="name at least two runs"):
            compare_runs([next(runs.iterdir())])

    def test_runs_of_other_kinds_stand_in_the_same_tables(self, tiny_models: TinyModels, tmp_path: Path) -> None:
        pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
        words = ["bon", "mini", "--policy", tiny_models.causal(), "--critic", "reference:rouge1,encoder=none"]
        words += ["--view", "none", "-n", "2", "--tokens", "4", "--limit", "2"]
        for rm in ("overlap", "shortest"):
            done = palate(*words, "--rm", rm, cwd=tmp_path, PALATE_CACHE=str(tmp_path / "cache"))
            assert done.returncode == 0, done.stderr
        folders = sorted(tmp_path.glob("runs/mini-best-of-2-*"))
        [beside] = compare_runs(folders).beside
        assert beside.kind == "best-of-n"
        assert {row[0] for table in beside.tables for row in table.rows} == {folder.name for folder in folders}
        done = palate("compare", *folders, COLUMNS="160")
        assert "no difference was tested" in done.stdout

    def test_the_command_takes_any_number(self, runs: Path) -> None:
        done = palate("compare", *sorted(runs.iterdir()), COLUMNS="140")
        assert done.returncode == 0, done.stderr
        assert "that all 3 runs hold" in done.stdout and "\x1b" not in done.stdout
