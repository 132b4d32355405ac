"""The tilted policy is a probability, the policy itself at weight 0, and the reward's choice at large weights."""

from __future__ import annotations

import numpy as np
import pytest

from palate.downstream import tilted
from palate.downstream.guide._guiding import limit

DRAW = np.random.default_rng(3)
VOCABULARY = 7
LOG_P = np.log(DRAW.dirichlet(np.ones(VOCABULARY), size=4))
REWARDS = DRAW.normal(size=(4, VOCABULARY))


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0, 40.0])
def test_with_the_whole_vocabulary_it_is_the_definition(weight: float) -> None:
    by_hand = np.exp(LOG_P) * np.exp(weight * REWARDS)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    found = np.column_stack([np.exp(tilted(LOG_P, REWARDS, [token] * 4, weight)) for token in range(VOCABULARY)])
    assert found == pytest.approx(by_hand, rel=1e-6, abs=1e-12)
    assert found.sum(axis=1) == pytest.approx(np.ones(4))


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0, 40.0])
def test_what_is_left_of_the_vocabulary_takes_the_mean_reward(weight: float) -> None:
    known = 3
    log_p, rewards = LOG_P[:, :known], REWARDS[:, :known]
    p = np.exp(log_p)
    mean = (p * rewards).sum(axis=1) / p.sum(axis=1)
    rest = (1 - p.sum(axis=1)) * np.exp(weight * mean)
    total = (p * np.exp(weight * rewards)).sum(axis=1) + rest
    found = np.column_stack([np.exp(tilted(log_p, rewards, [token] * 4, weight)) for token in range(known)])
    assert found.sum(axis=1) + rest / total == pytest.approx(np.ones(4))
    assert found == pytest.approx(p * np.exp(weight * rewards) / total[:, None])


def test_at_weight_nought_it_is_the_policy() -> None:
    assert tilted(LOG_P[:, :3], REWARDS[:, :3], [0, 1, 2, 0], 0.0) == pytest.approx(LOG_P[range(4), [0, 1, 2, 0]])


LEVEL = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [0.0, 1.0, 1.0], [3.0, -1.0, -1.0]])
"""Two best candidates, all of them level, two best again, one best."""


@pytest.mark.parametrize("rewards", [REWARDS[:, :3], LEVEL])
def test_at_large_weights_it_tends_to_the_regret_and_to_what_does_not_grow(rewards: np.ndarray) -> None:
    own, weight = [0, 1, 2, 1], 1e4
    regret, rest = limit(LOG_P[:, :3], rewards, own)
    found = tilted(LOG_P[:, :3], rewards, own, weight)
    assert found == pytest.approx(weight * regret + rest, abs=1e-6)
    assert (regret <= 0).all()


def test_a_reward_that_says_nothing_leaves_the_policy_as_it_is_at_the_limit_too() -> None:
    regret, rest = limit(LOG_P[:, :3], np.full((4, 3), 0.7), [0, 1, 2, 1])
    assert not regret.any()
    assert rest == pytest.approx(LOG_P[range(4), [0, 1, 2, 1]])


def test_what_fills_up_a_row_counts_for_nothing() -> None:
    wide = np.column_stack([LOG_P[:, :3], np.full(4, -np.inf)])
    worth = np.column_stack([REWARDS[:, :3], np.full(4, 99.0)])
    for weight in (0.0, 3.0):
        assert tilted(wide, worth, [0] * 4, weight) == pytest.approx(
            tilted(LOG_P[:, :3], REWARDS[:, :3], [0] * 4, weight)
        )
    for filled, plain in zip(limit(wide, worth, [0] * 4), limit(LOG_P[:, :3], REWARDS[:, :3], [0] * 4), strict=True):
        assert filled == pytest.approx(plain)
