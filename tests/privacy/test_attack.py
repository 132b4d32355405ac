"""Membership inference: it finds what leaks, stays within what epsilon allows, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from palate.cli import main
from palate.data import load_benchmark
from palate.personal import PersonalModel, PrivacySettings
from palate.privacy import Target, allowed_area, allowed_rate, attack
from palate.privacy._membership import likelihood_ratios, measure
from palate.records import PalateError


def told(gap: float, users: int = 200, models: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Statistics of users whose members stand out by `gap` standard deviations."""
    draw = np.random.default_rng(0)
    halves = [draw.permutation(np.arange(users) % 2 == 0) for _ in range(models // 2)]
    member = np.array([side for half in halves for side in (half, ~half)])
    own_level = 5 * draw.normal(size=users)  # users differ far more than models do
    return own_level + gap * member + draw.normal(size=(models, users)), member


def test_a_leak_is_found_and_no_leak_is_not() -> None:
    leaking = measure("", likelihood_ratios(*told(2.0)), told(2.0)[1], 0)
    assert leaking.area.low > 0.85 and leaking.found_at_5.value > 0.3
    silent = measure("", likelihood_ratios(*told(0.0)), told(0.0)[1], 0)
    assert silent.area.low <= 0.5 <= silent.area.high


def test_what_epsilon_allows() -> None:
    assert allowed_rate(0.05, 0.0, 0.0) == pytest.approx(0.05)
    assert allowed_area(0.0, 0.0) == pytest.approx(0.5, abs=1e-3)
    assert allowed_area(1.0, 0.0) == pytest.approx(np.e / (1 + np.e), abs=1e-3)
    assert allowed_rate(0.01, 60.0, 0.0) == 1.0


def test_stored_states_give_users_away_and_privacy_holds(tmp_path: Path) -> None:
    mini = load_benchmark("mini")
    shared, states = attack(mini, Target(method="per-user", features="traits"), shadows=8, out=tmp_path)
    assert states.area.value > 0.99 and states.found_at_1.value > 0.9
    assert shared.users == 60 and shared.shadows == 8
    private = Target(method="bradley-terry", features="traits", privacy=PrivacySettings(epsilon=0.5, steps=20))
    (leak,) = attack(mini, private, shadows=8, out=tmp_path)
    assert leak.area.allowed is not None and leak.area.low <= leak.area.allowed < 0.65


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    mini = load_benchmark("mini")
    target = Target(method="bradley-terry", features="traits")
    first = attack(mini, target, shadows=4, out=tmp_path)
    (folder,) = tmp_path.iterdir()
    files = sorted(folder.iterdir())
    assert len(files) == 4 and b"art-01" not in b"".join(file.read_bytes() for file in files)
    files[2].unlink()
    times = {file: file.stat().st_mtime_ns for file in files if file.exists()}
    assert attack(mini, target, shadows=4, out=tmp_path) == first
    assert all(file.stat().st_mtime_ns == time for file, time in times.items()) and files[2].exists()


def test_the_command_says_what_the_file_itself_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mini = load_benchmark("mini")
    model = PersonalModel("per-user", features="traits").fit(mini.comparisons, mini.users).save(tmp_path / "model")
    arguments = ["privacy", "attack", "mini", "--model", str(model), "--shadows", "4", "--out", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as done:
        main(arguments)
    out = " ".join(capsys.readouterr().out.split())
    assert done.value.code == 0 and "names 60 users" in out and "needs no attack" in out
    with pytest.raises(SystemExit):
        main(["privacy", "strip", str(model), str(tmp_path / "stripped")])
    assert json.loads((tmp_path / "stripped" / "model.json").read_text())["users"] == []
    stripped = PersonalModel.load(tmp_path / "stripped")
    assert not stripped.users and not stripped._trained


def test_too_little_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PalateError, match="couples"):
        attack(load_benchmark("mini"), Target(method="bradley-terry", features="traits"), shadows=3, out=tmp_path)
