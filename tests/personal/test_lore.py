"""LoRe: mixtures of shared rewards."""

import pytest
import torch

from palate.personal import Known, PersonalModel
from palate.personal._lore import LoRe, LoReSettings
from planted import planted
from unseen import accuracy, trained


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("lore", LoReSettings(directions=3))


def test_weights_are_a_mixture(model: PersonalModel) -> None:
    for name in model.users:
        state = model._states[name]
        assert state.shape == (1, 3)
        assert float(state.sum()) == pytest.approx(1, abs=1e-6)
        assert (state >= 0).all()


def test_a_users_weights_against_every_point_of_a_fine_grid() -> None:
    """Two directions: the posterior has its top where a thousand steps along the simplex find it."""
    method = LoRe(LoReSettings(directions=2, concentration=1.5), {"some": slice(0, 2)})
    method.shared = {"directions": torch.tensor([[2.0, 0.0], [0.0, 1.0]]), "mean": torch.tensor([0.3, 0.7])}
    better, worse = (
        torch.tensor([[1.0, 0.0], [1.0, 0.5], [0.0, 2.0]]),
        torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]),
    )
    weight = torch.tensor([1.0, 0.5, 1.0])
    first = torch.arange(1, 10000) / 10000
    mixtures = torch.stack([first, 1 - first], 1)
    margin = mixtures @ method.shared["directions"] @ (better - worse).T
    posterior = torch.nn.functional.logsigmoid(margin) @ weight + 1.5 * mixtures.log() @ method.shared["mean"]
    found = method.user(Known(better, worse, weight, torch.zeros(0, 2)))
    torch.testing.assert_close(found[0], mixtures[posterior.argmax()], atol=2e-4, rtol=0)


def test_the_reward_is_the_mixture_of_rewards(model: PersonalModel) -> None:
    rows, state = torch.randn(4, model.features.dimensions), torch.tensor([[0.2, 0.5, 0.3]])
    directions = model.method.shared["directions"]
    by_hand = sum(share * (rows @ direction) for share, direction in zip(state[0], directions, strict=True))
    torch.testing.assert_close(model.method.reward(rows, state), by_hand, atol=1e-4, rtol=1e-4)


def test_nobody_has_the_mean_weights_of_the_users(model: PersonalModel) -> None:
    mean = torch.cat([model._states[name] for name in model.users]).mean(0)
    torch.testing.assert_close(model.method.nobody()[0], mean, atol=0.02, rtol=0)


def test_settings_are_chosen_on_other_users() -> None:
    small = planted(couples=16, choices=5, history=3)
    model = trained("lore", benchmark=small)
    assert model.chosen_by is not None
    assert accuracy(model, "judgements:3", small) > 0.8
