"""The exact solver against a plain descent on the same objective."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.personal._optimise import optimise
from palate.personal._own_vectors import own_weights


def slowly(differences: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, precision: float) -> torch.Tensor:
    weights = torch.zeros(differences.shape[1], dtype=torch.double, requires_grad=True)

    def loss() -> torch.Tensor:
        won = torch.nn.functional.logsigmoid(offset.double() + differences.double() @ weights)
        return precision / 2 * weights.square().sum() - (weight.double() * won).sum()

    for _ in range(20):
        optimise([weights], loss, steps=400)
    return weights.detach().float()


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 40),
    width=st.integers(1, 12),
    precision=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_the_minimum_is_found(count: int, width: int, precision: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    differences = 2 * torch.randn(count, width, generator=generator)
    weight = torch.rand(count, generator=generator) + 0.1
    offset = torch.randn(count, generator=generator)
    wanted = slowly(differences, weight, offset, precision)
    own = own_weights([differences], [weight], [offset], precision)[0]
    torch.testing.assert_close(own, wanted, atol=2e-3, rtol=2e-3)


def test_users_are_solved_alone_whoever_is_beside_them() -> None:
    generator = torch.Generator().manual_seed(1)
    counts = [3, 0, 17, 1, 200, 5]
    differences = [torch.randn(count, 6, generator=generator) for count in counts]
    weight = [torch.ones(count) for count in counts]
    offset = [torch.zeros(count) for count in counts]
    together = own_weights(differences, weight, offset, 1.0)
    for place in range(len(counts)):
        alone = own_weights(differences[place : place + 1], weight[place : place + 1], offset[place : place + 1], 1.0)
        torch.testing.assert_close(together[place], alone[0], atol=1e-5, rtol=1e-5)
    assert together[1].abs().max() == 0


def test_contradictions_cancel() -> None:
    one = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
    assert own_weights([one], [torch.ones(2)], [torch.zeros(2)], 1.0).abs().max() < 1e-6
