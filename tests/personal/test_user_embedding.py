"""User embedding: what a user's vector does to the reward."""

import pytest
import torch

from palate.personal import Known
from palate.personal._user_embedding import UserEmbedding, UserEmbeddingSettings
from planted import planted
from unseen import accuracy, trained

BLOCKS = {"some": slice(0, 2)}


def test_the_multiplicative_reward_by_hand() -> None:
    method = UserEmbedding(UserEmbeddingSettings(rank=1), BLOCKS)
    method.shared = {"weights": torch.tensor([1.0, -1.0]), "map": torch.tensor([[0.5, 2.0]])}
    rows = torch.tensor([[1.0, 1.0], [0.0, 2.0]])
    # w.x is 0 and -2; B x is 2.5 and 4; e is 3.
    torch.testing.assert_close(method.reward(rows, torch.tensor([[3.0]])), torch.tensor([7.5, 10.0]))
    torch.testing.assert_close(method.reward(rows, method.nobody()), torch.tensor([0.0, -2.0]))


def test_the_additive_reward_by_hand() -> None:
    method = UserEmbedding(UserEmbeddingSettings(rank=1, hidden=2, form="additive"), BLOCKS)
    method.shared = {
        "weights": torch.tensor([1.0, -1.0]),
        "map": torch.eye(2),
        "bias": torch.tensor([0.0, 1.0]),
        "shift": torch.tensor([[1.0], [-1.0]]),
        "out": torch.tensor([1.0, 2.0]),
    }
    row = torch.tensor([[0.2, 0.4]])
    # The units stand at 0.2 and 1.4; e = 0.5 moves them to 0.7 and 0.9.
    shifts = torch.tanh(torch.tensor([0.7, 0.9])) - torch.tanh(torch.tensor([0.2, 1.4]))
    expected = -0.2 + shifts[0] + 2 * shifts[1]
    torch.testing.assert_close(method.reward(row, torch.tensor([[0.5]])), expected[None])
    torch.testing.assert_close(method.reward(row, method.nobody()), torch.tensor([-0.2]))


@pytest.mark.parametrize("form", ["multiplicative", "additive"])
def test_slopes_in_the_users_vector_are_right(form: str) -> None:
    """Against differentiation by torch."""
    method = UserEmbedding(UserEmbeddingSettings(rank=3, form=form), BLOCKS)  # type: ignore[arg-type]
    factors, _ = method._start(width=2, users=1)
    factors = {name: one.detach().double() for name, one in method._scaled(factors).items()}
    better, worse = (method._project(torch.randn(4, 2).double(), factors) for _ in range(2))
    own, user = torch.randn(1, 3).double().requires_grad_(), torch.zeros(4, dtype=torch.long)
    _, slopes = method._margins(better, worse, own, user, factors)
    for pair in range(4):
        (exact,) = torch.autograd.grad(method._margins(better, worse, own, user, factors)[0][pair], own)
        torch.testing.assert_close(slopes[pair], exact[0])


def test_the_same_judgement_again_moves_a_user_further() -> None:
    model = trained("user-embedding", UserEmbeddingSettings(rank=2))
    width = model.features.dimensions
    better, worse = torch.randn(2, 1, width, generator=torch.Generator().manual_seed(1)) / width**0.5
    lengths = [
        float(model.method.user(Known(better, worse, torch.tensor([weight]), torch.zeros(0, width))).norm())
        for weight in (0.0, 1.0, 4.0, 16.0)
    ]
    assert lengths[0] == 0
    assert lengths == sorted(set(lengths))


def test_settings_are_chosen_on_other_users() -> None:
    small = planted(couples=16, choices=5, history=3)
    model = trained("user-embedding", benchmark=small)
    assert model.chosen_by is not None
    assert accuracy(model, "judgements:3", small) > 0.8
