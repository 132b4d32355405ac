"""Differential privacy for users: bounded influence, accounted noise, nothing kept that would break it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from exact import shared_weights
from palate.cli import main
from palate.data import load_benchmark
from palate.personal import Pairs, PersonalModel, PrivacySettings, parse_method
from palate.personal import _private as private
from palate.personal._private import Noise, clipped_sum, epsilon_spent, noise_multiplier, private_weights
from palate.records import PalateError

accountants = pytest.importorskip("opacus.accountants")


def some_pairs(users: int = 200, choices: int = 12, width: int = 6, seed: int = 0) -> Pairs:
    """Users of one taste, in small."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(300, width, generator=draw) / math.sqrt(width)
    taste = torch.linspace(2, -2, width)
    one, other = torch.randint(300, (2, users * choices), generator=draw)
    sure = torch.sigmoid((rows[one] - rows[other]) @ taste)
    first = torch.rand(users * choices, generator=draw) < sure
    return Pairs(
        rows=rows,
        better=torch.where(first, one, other),
        worse=torch.where(first, other, one),
        user=torch.arange(users).repeat_interleave(choices),
        weight=torch.ones(users * choices),
        choice=torch.arange(users * choices),
        users=tuple(f"user {place}" for place in range(users)),
    )


def test_one_user_moves_the_sum_by_no_more_than_twice_the_clip() -> None:
    """Twice where a user is changed into anything else, once where they come or go."""
    pairs, clip = some_pairs(users=20), 0.05
    weights = torch.ones(6, dtype=torch.double)
    everybody = torch.ones(20, dtype=torch.bool)
    whole = clipped_sum(pairs, weights, clip, everybody)
    own = pairs.user == 7
    swapped = Pairs(
        rows=torch.cat([pairs.rows, 1e6 * torch.ones(1, 6)]),
        better=torch.where(own, 300, pairs.better),
        worse=torch.where(own, 0, pairs.worse),
        user=pairs.user,
        weight=torch.where(own, 1e3, pairs.weight),
        choice=pairs.choice,
        users=pairs.users,
    )
    assert float((clipped_sum(swapped, weights, clip, everybody) - whole).norm()) <= 2 * clip + 1e-12
    without = everybody.clone()
    without[7] = False
    moved = float((clipped_sum(pairs, weights, clip, without) - whole).norm())
    assert moved == pytest.approx(clip) or moved < clip
    alone = ~without
    assert torch.allclose(
        whole - clipped_sum(pairs, weights, clip, without), clipped_sum(pairs, weights, clip, alone), atol=1e-6
    )


def test_a_short_gradient_is_the_mean_over_the_users_choices() -> None:
    pairs = some_pairs(users=3)
    weights = torch.zeros(6, dtype=torch.double)
    expected = torch.stack([-0.5 * pairs.differences[pairs.user == place].double().mean(0) for place in range(3)])
    found = clipped_sum(pairs, weights, 1e9, torch.ones(3, dtype=torch.bool))
    assert torch.allclose(found, expected.sum(0), atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_accountant_agrees(epsilon: float) -> None:
    settings = PrivacySettings(epsilon=epsilon, steps=30)
    sigma = noise_multiplier(settings)
    accountant = accountants.RDPAccountant()
    for _ in range(settings.steps):
        accountant.step(noise_multiplier=sigma, sample_rate=settings.rate)
    reckoned = accountant.get_epsilon(settings.delta, alphas=private.ORDERS)
    assert epsilon_spent(sigma, settings) == pytest.approx(reckoned)
    assert 0.95 * epsilon < reckoned <= epsilon


def test_noise_comes_from_the_system_unless_a_seed_is_given() -> None:
    assert not np.array_equal(Noise().normal(8), Noise().normal(8))
    assert np.array_equal(Noise(3).normal(8), Noise(3).normal(8))
    drawn = Noise(1).normal(100_000)
    assert abs(drawn.mean()) < 0.02 and abs(drawn.std() - 1) < 0.02 and abs((drawn > 1.96).mean() - 0.025) < 0.003
    assert Noise(1).uniform(1000).min() > 0 and Noise(1).uniform(1000).max() < 1


def test_much_epsilon_comes_near_the_weights_without_privacy() -> None:
    pairs = some_pairs(users=400)
    plain = shared_weights(pairs.differences, pairs.weight, 12.0)
    near = {
        epsilon: float(torch.cosine_similarity(plain, private_weights(pairs, 1.0, settings)[0], dim=0))
        for epsilon in (0.05, 50.0)
        for settings in [PrivacySettings(epsilon=epsilon, clip=5.0, learning_rate=2.0, noise_seed=0)]
    }
    assert near[50.0] > 0.98 > near[0.05]


def test_the_file_says_what_was_spent_and_keeps_no_marks(tmp_path: Path) -> None:
    benchmark = load_benchmark("mini")
    model = PersonalModel("per-user", features="traits")
    model.fit(benchmark.comparisons, benchmark.users, privacy=PrivacySettings(epsilon=2.0, steps=20))
    model.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())["about"]["privacy"]
    assert 1.9 < about["epsilon"] <= 2.0 and about["private"] is True and about["users"] == 60
    again = PersonalModel.load(tmp_path)
    assert not again._trained and again.chosen_by is None
    other = PersonalModel("bradley-terry", features="traits")
    other.fit(benchmark.comparisons[:40], benchmark.users, privacy=PrivacySettings(epsilon=2.0, steps=5))
    for name, rows in again.features.tensors().items():  # public, and so the same whatever is trained on
        assert np.array_equal(rows, other.features.tensors()[name])


def test_bad_settings_are_refused() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(PalateError, match="epsilon"):
            PrivacySettings(epsilon=wrong)
    with pytest.raises(PalateError, match="number of users"):
        private_weights(some_pairs(users=20), 1.0, PrivacySettings(epsilon=1.0, delta=0.05))
    for wrong_spec in ("vpl,epsilon=1", "per-user,delta=1e-6", "per-user,epsilon=0", "per-user,epsilon=x"):
        with pytest.raises(PalateError):
            parse_method(wrong_spec)


def test_the_command_draws_the_curve_and_keeps_private_models_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "mini", "--features", "traits", "--epsilon", "1,inf", "--noise-seed", "1", "--folds", "2"]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--method", "bradley-terry"])
    assert done.value.code == 0
    printed = capsys.readouterr().out
    assert "no privacy" in printed and "spent epsilon 0.99" in printed
    (run,) = (tmp_path / "runs").iterdir()
    assert [folder.name for folder in (run / "models").iterdir()] == [
        "bradley-terry,epsilon=1,delta=1e-05,noise_seed=1"
    ]
    assert (run / "privacy-curve.svg").read_text().startswith("<svg")
    with pytest.raises(SystemExit) as refused:
        main(["train", "mini", "--epsilon", "0"])
    assert refused.value.code == 2
