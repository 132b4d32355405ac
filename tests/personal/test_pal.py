"""PAL: ideal points among prototypes."""

import pytest
import torch

from palate.personal import Known, PersonalModel
from palate.personal._pal import Pal, PalSettings
from planted import planted
from unseen import accuracy, trained


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return trained("pal", PalSettings(prototypes=3))


def test_weights_are_a_mixture_and_prototypes_have_length_one(model: PersonalModel) -> None:
    torch.testing.assert_close(model.method.shared["prototypes"].norm(dim=1), torch.ones(3))
    for name in model.users:
        state = model._states[name]
        assert float(state.sum()) == pytest.approx(1, abs=1e-6)
        assert (state >= 0).all()


def test_the_reward_by_hand() -> None:
    method = pal_of(torch.tensor([0.0, 4.0]))
    row = torch.atanh(torch.tensor([[0.6, 0.2]]))
    base = 4 * row[:, 1]
    # f(x) is (0.6, 0.2). The ideal point (1, 0) is at 0.16 + 0.04, the middle (0.5, 0.5) at 0.01 + 0.09; s is 2.
    torch.testing.assert_close(method.reward(row, torch.tensor([[1.0, 0.0]])), base - 0.4)
    torch.testing.assert_close(method.reward(row, method.nobody()), base - 0.2)


def test_too_much_is_liked_as_little_as_too_little() -> None:
    """The best text is at the ideal point itself, and liking falls off on both sides."""
    rows = torch.atanh(torch.tensor([[0.3, 0.5], [0.5, 0.5], [0.7, 0.5]]))
    rewards = pal_of(torch.zeros(2)).reward(rows, torch.tensor([[0.5, 0.5]]))
    torch.testing.assert_close(rewards, torch.tensor([-0.08, 0.0, -0.08]))


def pal_of(weights: torch.Tensor) -> Pal:
    method = Pal(PalSettings(prototypes=2, dimensions=2, scale=2.0), {"some": slice(0, 2)})
    method.shared = {
        "weights": weights,
        "map": torch.eye(2),
        "prototypes": torch.eye(2),
        "mean": torch.tensor([0.5, 0.5]),
    }
    return method


def test_a_users_weights_against_every_point_of_a_fine_grid() -> None:
    """The posterior of a mixture of two has its top where ten thousand steps from one to the other find it."""
    method = pal_of(torch.tensor([0.3, -0.2]))
    better, worse = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(2))
    first = torch.arange(1, 10000) / 10000
    posterior = [
        torch.nn.functional.logsigmoid(method.reward(better, state[None]) - method.reward(worse, state[None])).sum()
        + method.settings.concentration * (method.shared["mean"] * state.log()).sum()
        for state in torch.stack([first, 1 - first], 1)
    ]
    best = float(first[torch.stack(posterior).argmax()])
    found = method.user(Known(better, worse, torch.ones(5), torch.zeros(0, 2)))
    assert float(found[0, 0]) == pytest.approx(best, abs=1e-3)


def test_settings_are_chosen_on_other_users() -> None:
    small = planted(couples=16, choices=5, history=3)
    model = trained("pal", benchmark=small)
    assert model.chosen_by is not None
    assert accuracy(model, "judgements:3", small) > 0.8
