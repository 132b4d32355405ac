"""A consensus, and a few tastes that each user has more or less of."""

from pathlib import Path

import pytest
import torch

from palate.personal import Known, PersonalModel
from palate.personal._crowd_gppl import CrowdGppl, CrowdGpplSettings, prior, update
from palate.personal._gppl import GpplSettings
from palate.records import Ask, View
from palate.rewards import check_reward_model
from unseen import BENCHMARK, accuracy, asks, trained

SETTINGS = CrowdGpplSettings(inducing=60, components=2, taste_precision=3.0)


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("crowd-gppl", SETTINGS)


def method_of(model: PersonalModel) -> CrowdGppl:
    assert isinstance(model.method, CrowdGppl)
    return model.method


def test_tastes_of_strangers_are_read_from_their_judgements(model: PersonalModel) -> None:
    assert accuracy(trained("bradley-terry"), "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:1") > 0.8
    assert accuracy(model, "judgements:8") > 0.9


def test_users_of_the_training_data_are_known_by_name(model: PersonalModel) -> None:
    right = 0
    for name in model.users:
        judgement = BENCHMARK.users[name].judgements[0]
        ask = Ask(
            id=name,
            prompt="Another one.",
            responses=tuple(f"{text} So it is." for text in judgement.responses),  # itself it knows, and does not rate
            view=View(name="user", user_id=name, by_name=True),
        )
        scores = model.rate([ask])[0].scores
        assert scores is not None
        right += scores[judgement.preferred] > scores[1 - judgement.preferred]
    assert right / len(model.users) > 0.9


def test_knowing_nothing_it_is_gppl(model: PersonalModel) -> None:
    consensus = trained("gppl", GpplSettings(inducing=60))
    nobody = [ask for _, ask in asks("none")]
    assert [one.scores for one in model.rate(nobody)] == [
        pytest.approx(one.scores, abs=1e-4) for one in consensus.rate(nobody)
    ]
    stranger = model.rate(
        [Ask(id="x", prompt="p", responses=("a", "b"), view=View(name="user", user_id="new", by_name=True))]
    )[0]
    assert stranger.note is not None
    assert stranger.note.startswith("impersonal")


def test_one_weight_against_numerical_integration() -> None:
    base, own = torch.tensor([0.5, -1.0, 0.2, 0.0]), torch.tensor([[1.0], [2.0], [-1.5], [0.5]])
    counted, user = torch.tensor([1.0, 0.5, 1.0, 1.0]), torch.zeros(4, dtype=torch.long)
    weights = prior(1, 1)
    for _ in range(50):
        weights = update(weights, base, own, counted, user)
    points = torch.linspace(-8, 8, 10_001)
    likelihood = torch.nn.functional.logsigmoid(base + points[:, None] * own[:, 0]) @ counted
    density = torch.exp(likelihood - points.square() / 2)
    density = density / density.sum()
    mean = float((density * points).sum())
    variance = float((density * (points - mean).square()).sum())
    assert float(weights.mean) == pytest.approx(mean, abs=0.03)
    assert float(weights.covariance) == pytest.approx(variance, rel=0.1)


def test_the_posterior_narrows_with_every_judgement() -> None:
    generator = torch.Generator().manual_seed(0)
    own, base = torch.randn(64, 3, generator=generator), torch.randn(64, generator=generator)
    widths = []
    for count in (0, 1, 4, 16, 64):
        weights = prior(1, 3)
        for _ in range(50):
            some = base[:count], own[:count], torch.ones(count), torch.zeros(count, dtype=torch.long)
            weights = update(weights, *some)
        widths.append(float(weights.covariance.logdet()))
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 0


def test_users_are_learned_apart_though_all_at_once(model: PersonalModel) -> None:
    method = method_of(model)
    rows = torch.randn(12, model.features.dimensions, generator=torch.Generator().manual_seed(0)) / 5
    known = [Known(rows[:3], rows[3:6], torch.ones(3), rows[:0]), Known(rows[6:7], rows[7:8], torch.ones(1), rows[:0])]
    together = method.users([*known, Known(rows[:0], rows[:0], torch.ones(0), rows[:0])])
    for one, state in zip(known, together, strict=False):
        torch.testing.assert_close(method.user(one), state, atol=1e-4, rtol=1e-4)
    assert torch.equal(together[2], method.nobody())
    backwards = Known(rows[:3].flip(0), rows[3:6].flip(0), torch.ones(3), rows[:0])
    torch.testing.assert_close(method.user(backwards), together[0], atol=1e-4, rtol=1e-4)


def test_contradictions_cancel_and_many_judgements_are_finite(model: PersonalModel) -> None:
    method = method_of(model)
    rows = torch.randn(400, model.features.dimensions, generator=torch.Generator().manual_seed(0))
    better, worse = rows[:200], rows[200:]
    for count in (1, 200):
        state = method.user(Known(better[:count], worse[:count], torch.ones(count), rows[:0]))
        assert method.reward(rows, state).isfinite().all()
    both = Known(torch.cat([better[:1], worse[:1]]), torch.cat([worse[:1], better[:1]]), torch.ones(2), rows[:0])
    once = Known(better[:1], worse[:1], torch.ones(1), rows[:0])
    margins = [
        method.reward(better[:1], state) - method.reward(worse[:1], state)
        for state in (method.user(both), method.user(once), method.nobody())
    ]
    assert abs(margins[0]) <= abs(margins[2]) + 1e-6  # pulled towards even
    assert margins[1] > margins[0]


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    check_reward_model(model)
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    rated = [ask for _, ask in asks("judgements:4")[:20]]
    assert loaded.rate(rated) == model.rate(rated)
    assert loaded.fingerprint == model.fingerprint


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    assert trained("crowd-gppl", SETTINGS).fingerprint == model.fingerprint
