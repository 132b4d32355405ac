"""The arithmetic of PPO against numbers computed by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from palate.downstream import Training  # noqa: E402
from palate.downstream.ppo._ppo import (  # noqa: E402
    KLController,
    advantages_and_returns,
    entropies,
    leave_one_out,
    log_probabilities,
    policy_losses,
    token_rewards,
    value_losses,
    whiten,
    within_prompts,
)

MASK = torch.tensor([[True, True, True], [True, True, False]])


def near(found: torch.Tensor, expected: list[list[float]] | list[float]) -> bool:
    return torch.allclose(found, torch.tensor(expected, dtype=found.dtype), atol=1e-6)


def test_log_probabilities_are_those_of_the_tokens_that_were_taken() -> None:
    logits = torch.tensor([[[0.0, math.log(3.0)], [math.log(4.0), 0.0]]])
    assert near(log_probabilities(logits, torch.tensor([[1, 1]])), [[math.log(3 / 4), math.log(1 / 5)]])


def test_entropy_of_a_fair_coin_is_log_two() -> None:
    coin, sure = [0.0, 0.0], [0.0, -1000.0]
    assert near(entropies(torch.tensor([[coin, sure]])), [[math.log(2), 0.0]])


def test_the_last_token_gets_the_reward() -> None:
    assert near(token_rewards(MASK, torch.tensor([10.0, 20.0])), [[0.0, 0.0, 10.0], [0.0, 20.0, 0.0]])


def test_a_token_that_pays_for_its_own_divergence_has_the_gradient_of_the_divergence() -> None:
    """Every token weighed by its probability, against the divergence itself."""
    logits = torch.tensor([0.3, -1.0, 0.7], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.1, 0.5, -0.2], dtype=torch.float64).log_softmax(0)
    logs = logits.log_softmax(0)
    [exact] = torch.autograd.grad((logs.exp() * (logs - reference)).sum(), logits)
    logs = logits.log_softmax(0)
    old, there = logs.detach(), torch.ones_like(logs, dtype=torch.bool)
    losses, _ = policy_losses(logs, old, reference - old, there, clip_range=0.2)
    [found] = torch.autograd.grad((old.exp() * losses).sum(), logits)
    assert torch.allclose(found, exact, atol=1e-12)


def test_generalised_advantages() -> None:
    rewards = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    values = torch.tensor([[0.5, 1.0, 0.5], [1.0, 2.0, 9.0]])  # the 9 stands on padding
    advantages, returns = advantages_and_returns(rewards, values, MASK, gamma=0.9, gae_lambda=0.8)
    # First text: TD errors 1 + 0.9 * 1 - 0.5, 0 + 0.9 * 0.5 - 1 and 2 - 0.5; each adds 0.72 of the next advantage.
    assert near(advantages, [[1.7816, 0.53, 1.5], [1.52, 1.0, 0.0]])
    assert near(returns, [[2.2816, 1.53, 2.0], [2.52, 3.0, 0.0]])


def test_without_decay_or_values_the_advantage_is_all_that_comes() -> None:
    rewards = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    advantages, _ = advantages_and_returns(rewards, torch.zeros(2, 3), MASK, gamma=1.0, gae_lambda=1.0)
    assert near(advantages, [[3.0, 2.0, 2.0], [3.0, 3.0, 0.0]])


def test_whitening_looks_at_real_tokens_only() -> None:
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 1000.0]])
    deviation = math.sqrt(2.0)  # of 1 to 5, over n
    expected = [[-2 / deviation, -1 / deviation, 0.0], [1 / deviation, 2 / deviation, 0.0]]
    assert near(whiten(values, MASK), expected)


@pytest.mark.parametrize("level", [0.0, 5.0, -12345.678])
def test_values_that_are_all_the_same_are_whitened_to_nothing(level: float) -> None:
    assert near(whiten(torch.full((2, 3), level), MASK), [[0.0] * 3, [0.0] * 3])


def test_rewards_are_measured_from_the_mean_of_their_prompt() -> None:
    rewards = torch.tensor([1.0, 3.0, 10.0, 10.0])
    assert within_prompts(rewards, 2).tolist() == [-1.0, 1.0, 0.0, 0.0]
    assert within_prompts(rewards, 1) is rewards


def test_a_text_is_measured_by_the_others_of_its_prompt() -> None:
    totals = torch.tensor([1.0, 2.0, 6.0, 10.0, 10.0, 10.0])
    # 1 - (2 + 6) / 2, 2 - (1 + 6) / 2, 6 - (1 + 2) / 2; nothing where all are alike
    assert near(leave_one_out(totals, 3), [-3.0, -1.5, 4.5, 0.0, 0.0, 0.0])


def test_a_process_may_have_no_text_left_of_a_step() -> None:
    nothing = torch.zeros(0)
    assert within_prompts(nothing, 4).shape == leave_one_out(nothing, 4).shape == (0,)


def test_ratios_are_clipped_on_the_side_that_would_gain() -> None:
    new = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1, 7.0]).log()[None]
    advantages = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0, 1.0]])
    mask = torch.tensor([[True] * 5 + [False]])
    losses, clipped = policy_losses(new, torch.zeros(1, 6), advantages, mask, clip_range=0.2)
    assert near(losses, [[-1.2, 1.5, -0.5, 0.8, -1.1, 0.0]])
    assert clipped.tolist() == [[True, False, False, True, False, False]]


def test_values_are_held_near_the_old_ones() -> None:
    new, old = torch.tensor([[1.0, 0.1, 5.0]]), torch.tensor([[0.0, 0.0, 0.0]])
    returns, mask = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[True, True, False]])
    # (1 - 2)^2 against (0.2 - 2)^2; a move within the clip counts as it is
    assert near(value_losses(new, old, returns, mask, clip_range=0.2), [[0.5 * 3.24, 0.5 * 0.81, 0.0]])


@pytest.mark.parametrize(
    ("divergence", "factor"),
    [(8.0, 1 + 0.2 * 0.1), (4.4, 1 + 0.1 * 0.1), (0.0, 1 - 0.2 * 0.1)],  # twice too far counts as a fifth
)
def test_the_coefficient_follows_the_target(divergence: float, factor: float) -> None:
    controller = KLController(Training(kl=0.1, kl_target=4.0, kl_horizon=1000, prompts=10, samples=10))
    controller.update(divergence)
    assert controller.coefficient == pytest.approx(0.1 * factor)


def test_without_a_target_the_coefficient_stays() -> None:
    controller = KLController(Training(kl=0.1))
    controller.update(8.0)
    assert controller.coefficient == 0.1
