"""Descents end where the loss is low and numbers are numbers, also on slopes that go on for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from palate.personal._optimise import optimise  # noqa: E402

SLOPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a plane": lambda x: x.sum(),
    "a steep plane": lambda x: 1e6 * x.sum(),
    "a gentle plane": lambda x: 1e-4 * x.sum(),
    "a dome": lambda x: -x.square().sum(),
    "a tail": lambda x: torch.exp(-x).sum(),
}


@pytest.mark.parametrize("slope", SLOPES)
def test_a_loss_without_a_bottom_ends_at_numbers_and_lower_than_it_began(slope: str) -> None:
    x = torch.ones(3, requires_grad=True)
    before = float(SLOPES[slope](x.detach()))
    optimise([x], lambda: SLOPES[slope](x))
    assert x.isfinite().all()
    assert float(SLOPES[slope](x.detach())) < before


def test_a_bowl_is_followed_to_its_bottom() -> None:
    bottom = torch.tensor([3.0, -1.0, 0.5])
    x = torch.zeros(3, requires_grad=True)
    optimise([x], lambda: ((x - bottom).square() * torch.tensor([1.0, 10.0, 100.0])).sum())
    assert x.detach() == pytest.approx(bottom, abs=1e-4)


def test_other_errors_are_not_swallowed() -> None:
    x = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="size"):
        optimise([x], lambda: (x + torch.zeros(4)).sum())
