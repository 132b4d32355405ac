"""Gaussian-process preference learning, and the features that make a Gaussian process linear."""

from pathlib import Path

import pytest
import torch

from palate.personal import Pairs, PersonalModel
from palate.personal._gppl import GpplSettings, consensus, slope
from palate.personal._inducing import InducingSettings, feature_map, kernel, learn_map
from palate.rewards import check_reward_model
from planted import planted
from unseen import BENCHMARK, accuracy, asks, trained

BLOCKS = {"first": slice(0, 2), "second": slice(2, 5)}


def pairs_of(rows: torch.Tensor, better: list[int], worse: list[int]) -> Pairs:
    count = len(better)
    return Pairs(
        rows,
        torch.tensor(better),
        torch.tensor(worse),
        torch.zeros(count, dtype=torch.long),
        torch.ones(count),
        torch.arange(count),
        ("somebody",),
    )


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("gppl", GpplSettings(inducing=40))


def test_the_kernel_by_hand() -> None:
    left, right = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]), torch.tensor([[3.0, 4.0, 1.0, 0.0, 0.0]])
    found = kernel(left, right, BLOCKS, torch.tensor([5.0, 2.0]), 0.5)
    far = torch.tensor(3.0).sqrt()  # a distance of 5 in the first block, which is one length; none in the second
    torch.testing.assert_close(found[0, 0], 0.5 + (1 + far) * torch.exp(-far) + 1.0)


def test_dot_products_of_the_features_are_the_kernel_where_every_text_is_a_point() -> None:
    rows = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    settings = InducingSettings(inducing=30)
    learned = learn_map(rows, BLOCKS, settings)
    phi = feature_map(rows, learned, BLOCKS, settings.linear)
    torch.testing.assert_close(
        phi @ phi.T, kernel(rows, rows, BLOCKS, learned["lengths"], settings.linear), atol=2e-3, rtol=0
    )


def test_fewer_points_than_texts_come_close_to_the_kernel() -> None:
    rows = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) / 5**0.5
    errors = []
    for count in (10, 50, 150):
        learned = learn_map(rows, BLOCKS, InducingSettings(inducing=count))
        phi = feature_map(rows, learned, BLOCKS, 0.3)
        assert phi.shape == (200, count)
        errors.append(float((phi @ phi.T - kernel(rows, rows, BLOCKS, learned["lengths"], 0.3)).abs().mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05


def test_texts_with_the_same_features_do_no_harm() -> None:
    rows = torch.ones(6, 5)
    learned = learn_map(rows, BLOCKS, InducingSettings())
    assert feature_map(rows, learned, BLOCKS, 1.0).isfinite().all()


def test_the_bound_touches_the_logistic_and_stays_below_it() -> None:
    x, z = torch.linspace(-6, 6, 50), torch.tensor(2.0)
    log_sigmoid = torch.nn.functional.logsigmoid
    bound = log_sigmoid(z) + (x - z) / 2 - slope(z) * (x.square() - z.square())
    assert (bound <= log_sigmoid(x) + 1e-6).all()
    assert float(slope(torch.tensor(0.0))) == pytest.approx(1 / 8)


def test_the_posterior_mean_against_every_point_of_a_fine_grid() -> None:
    """One weight: of all Gaussians, the one with the highest bound is found, and it is near the true posterior."""
    rows, precision = torch.tensor([[0.0], [1.0], [2.5]]), torch.tensor(0.7)
    pairs = pairs_of(rows, [1, 2, 2, 0, 1], [0, 0, 1, 2, 0])
    difference = pairs.differences[:, 0]
    mean, variance = torch.meshgrid(torch.linspace(0, 1, 1001), torch.linspace(0.05, 1, 951), indexing="ij")
    size = ((mean.square() + variance)[..., None] * difference.square()).sqrt()
    likelihood = torch.nn.functional.logsigmoid(size) + (mean[..., None] * difference - size) / 2
    divergence = (precision * (mean.square() + variance) - 1 - (precision * variance).log()) / 2
    best = (likelihood.sum(-1) - divergence).argmax()
    by_texts = float(consensus(rows, pairs, float(precision)))
    assert by_texts == pytest.approx(float(mean.flatten()[best]), abs=0.005)

    weight = torch.linspace(-10, 10, 10_001)
    prior = -precision / 2 * weight.square()
    density = torch.exp(torch.nn.functional.logsigmoid(weight[:, None] * difference).sum(1) + prior)
    density = density / density.sum()
    true = (density * weight).sum()
    spread = (density * (weight - true).square()).sum().sqrt()
    assert abs(by_texts - float(true)) < 0.15 * float(spread)

    by_pairs = float(consensus(torch.cat([rows, torch.zeros(9, 1)]), pairs, float(precision)))
    assert by_pairs == pytest.approx(by_texts, rel=1e-4)


def test_a_taste_that_no_weighted_sum_can_hold() -> None:
    """Texts are liked for being near zero on one feature: smooth, and not linear."""
    feature = torch.rand(300, 1, generator=torch.Generator().manual_seed(0)) * 4 - 2
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1)).reshape(150, 2)
    nearer = feature[order, 0].abs().argmin(1)
    better, worse = order[torch.arange(150), nearer], order[torch.arange(150), 1 - nearer]
    learned = learn_map(feature, {"only": slice(0, 1)}, InducingSettings(inducing=30))
    phi = feature_map(feature, learned, {"only": slice(0, 1)}, 0.3)
    mean = consensus(phi[: len(feature)], pairs_of(feature, better[:100].tolist(), worse[:100].tolist()), 0.3)
    reward = phi @ mean
    right = (reward[better[100:]] > reward[worse[100:]]).float().mean()
    assert right > 0.9


def test_it_is_impersonal(model: PersonalModel) -> None:
    assert accuracy(model, "judgements:8") == 0.5
    with_judgements = model.rate([ask for _, ask in asks("judgements:8")])
    assert with_judgements == model.rate([ask for _, ask in asks("none")])
    assert not model.users


def test_a_taste_that_everybody_shares_is_found() -> None:
    shared = planted(couples=20, choices=12, history=8)
    likes = {name for name in shared.users if name.endswith("asks")}
    some, others = {name for name in likes if int(name.split("-")[1]) >= 6}, likes
    model = PersonalModel("gppl", features="traits").fit(
        [item for item in shared.comparisons if item.user_id in some], {name: shared.users[name] for name in some}
    )
    items = [(item, ask) for item, ask in asks("none", shared) if item.user_id in others]
    ratings = model.rate([ask for _, ask in items])
    right = [one.scores is not None and one.scores[0] > one.scores[1] for one in ratings]
    assert sum(right) / len(right) > 0.95


def test_saving_and_loading_change_nothing(model: PersonalModel, tmp_path: Path) -> None:
    check_reward_model(model)
    loaded = PersonalModel.load(model.save(tmp_path / "kept"))
    rated = [ask for _, ask in asks("none")]
    assert loaded.rate(rated) == model.rate(rated)
    assert loaded.fingerprint == model.fingerprint


def test_the_same_seed_learns_the_same(model: PersonalModel) -> None:
    assert trained("gppl", GpplSettings(inducing=40), BENCHMARK).fingerprint == model.fingerprint
