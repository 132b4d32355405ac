"""Variational preference learning: a posterior over tastes."""

import itertools
from pathlib import Path

import pytest
import torch

from palate.personal import Known, PersonalModel, describe_model, findings_on_models
from palate.personal._vpl import Vpl, VplSettings, posterior
from unseen import accuracy, trained


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("vpl", VplSettings(epochs=20, kl=0.01))


def known_of(features: int, judgements: int, seed: int = 0) -> Known:
    generator = torch.Generator().manual_seed(seed)
    better, worse = torch.randn(2, judgements, features, generator=generator) / features**0.5
    return Known(better, worse, torch.ones(judgements), torch.zeros(0, features))


def vpl_of(model: PersonalModel) -> Vpl:
    assert isinstance(model.method, Vpl)
    return model.method


def test_tastes_of_strangers_are_inferred_from_judgements(model: PersonalModel) -> None:
    assert accuracy(trained("bradley-terry"), "judgements:8") == 0.5
    assert accuracy(model, "none") == 0.5
    assert accuracy(model, "judgements:8") > 0.9
    assert accuracy(model, "judgements:1") > 0.8


def test_the_posterior_narrows_with_every_judgement(model: PersonalModel) -> None:
    known = known_of(model.features.dimensions, 30)
    spreads = [
        vpl_of(model).posterior(Known(known.better[:n], known.worse[:n], known.weight[:n], known.posts))[1]
        for n in range(31)
    ]
    assert torch.equal(spreads[0], torch.ones(vpl_of(model).settings.latent))
    assert all((after < before).all() for before, after in itertools.pairwise(spreads))


def test_the_posterior_is_a_product_of_gaussians() -> None:
    """Against numerical integration of N(0, 1) N(z; 0.5, 1 / 2) N(z; -1, 1 / 0.7)."""
    precision, mean = torch.tensor([[2.0], [0.7]]), torch.tensor([[0.5], [-1.0]])
    z = torch.linspace(-8, 8, 20001, dtype=torch.double)
    density = torch.exp(-(z**2 + 2 * (z - 0.5) ** 2 + 0.7 * (z + 1) ** 2) / 2)
    density /= density.sum()
    centre = (density * z).sum()
    found = posterior(precision, precision * mean)
    assert float(found[0]) == pytest.approx(float(centre), abs=1e-5)
    assert float(found[1]) == pytest.approx(float((density * (z - centre) ** 2).sum()), abs=1e-5)


def test_the_opposite_judgement_cancels_where_the_base_is_indifferent(model: PersonalModel) -> None:
    method = Vpl(vpl_of(model).settings, vpl_of(model).blocks)
    method.shared = {**vpl_of(model).shared, "weights": torch.zeros(model.features.dimensions)}
    one = known_of(model.features.dimensions, 1)
    both = Known(torch.cat([one.better, one.worse]), torch.cat([one.worse, one.better]), torch.ones(2), one.posts)
    assert method.user(one).abs().max() > 1e-3
    torch.testing.assert_close(method.user(both), method.nobody(), atol=1e-6, rtol=0)


def test_the_order_of_judgements_does_not_matter(model: PersonalModel) -> None:
    known = known_of(model.features.dimensions, 12)
    turned = Known(known.better.flip(0), known.worse.flip(0), known.weight, known.posts)
    torch.testing.assert_close(model.method.user(turned), model.method.user(known))


def test_the_reward_adds_decoded_weights(model: PersonalModel) -> None:
    method = vpl_of(model)
    state, rows = torch.randn(1, method.settings.latent), torch.randn(4, model.features.dimensions)
    weights = method.shared["weights"] + sum(
        number * column for number, column in zip(state[0], method.shared["decoder"].T, strict=True)
    )
    torch.testing.assert_close(method.reward(rows, state), rows @ weights, atol=1e-4, rtol=1e-4)


def test_latent_units_that_tell_users_apart_are_active_and_that_is_kept(model: PersonalModel, tmp_path: Path) -> None:
    method = vpl_of(model)
    means = torch.cat([model._states[name] for name in model.users])
    spread = ((means - means.mean(0)) ** 2).mean(0)
    assert method.about["active_units"] == float((spread > 0.01).float().mean()) > 0.5
    model.save(tmp_path / "vpl")
    assert describe_model(tmp_path / "vpl").about["active_units"] == method.about["active_units"]
    assert findings_on_models(tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (VplSettings(epochs=20, kl=30.0), "collapsed: none of 8"),
        (VplSettings(epochs=0), "the personal part was left out"),
    ],
)
def test_a_model_that_collapsed_says_so(settings: VplSettings, said: str, tmp_path: Path) -> None:
    collapsed = trained("vpl", settings)
    assert collapsed.method.about["active_units"] == 0
    collapsed.save(tmp_path / "vpl")
    [finding] = findings_on_models(tmp_path)
    assert (finding.severity, finding.about) == ("warning", "vpl")
    assert said in finding.sentence
