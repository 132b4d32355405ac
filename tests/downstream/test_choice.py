"""Best-of-k is the exact expectation over all subsets of k samples, ties and all."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.downstream import best_of, chosen_probabilities, divergence_bound
from palate.downstream._choice import doubling

REWARDS = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 1.0, 7.0]) | st.floats(-5, 5), min_size=1, max_size=8)


def by_hand(rewards: list[float], values: list[float], k: int) -> float:
    """Every subset, and in each the mean value of those that tie for best."""
    found = []
    for subset in combinations(range(len(rewards)), k):
        best = max(rewards[index] for index in subset)
        found.append(np.mean([values[index] for index in subset if rewards[index] == best]))
    return float(np.mean(found))


@given(REWARDS, st.data())
def test_the_expectation_is_that_over_all_subsets(rewards: list[float], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.floats(-10, 10), min_size=len(rewards), max_size=len(rewards)))
    for k in range(1, len(rewards) + 1):
        assert best_of(rewards, values, k) == pytest.approx(by_hand(rewards, values, k), abs=1e-9)


@given(REWARDS)
def test_probabilities_add_up_and_follow_the_reward(rewards: list[float]) -> None:
    for k in range(1, len(rewards) + 1):
        found = chosen_probabilities(rewards, k)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
    assert np.allclose(chosen_probabilities(rewards, 1), 1 / len(rewards))
    best = np.asarray(rewards) == max(rewards)
    assert np.allclose(chosen_probabilities(rewards, len(rewards)), best / best.sum())


@given(REWARDS)
def test_the_reward_of_the_choice_never_falls(rewards: list[float]) -> None:
    means = [best_of(rewards, rewards, k) for k in range(1, len(rewards) + 1)]
    assert all(after >= before - 1e-9 for before, after in pairwise(means))


@given(REWARDS, st.randoms())
def test_the_order_of_the_samples_does_not_matter(rewards: list[float], random: object) -> None:
    values = [float(index**2) for index in range(len(rewards))]
    pairs = list(zip(rewards, values, strict=True))
    random.shuffle(pairs)  # type: ignore[attr-defined]
    for k in range(1, len(rewards) + 1):
        again = best_of([one for one, _ in pairs], [other for _, other in pairs], k)
        assert again == pytest.approx(best_of(rewards, values, k), abs=1e-9)


def test_one_of_one_is_the_mean_and_all_is_the_best() -> None:
    rewards, values = [0.3, 2.0, -1.0, 0.9], [4.0, 1.0, 2.0, 9.0]
    assert best_of(rewards, values, 1) == pytest.approx(np.mean(values))
    assert best_of(rewards, values, 4) == 1.0


def test_many_samples_are_no_trouble() -> None:
    rewards = [float(index) for index in range(2000)]
    assert chosen_probabilities(rewards, 1000).sum() == pytest.approx(1)
    assert best_of(rewards, rewards, 1999) == pytest.approx(1999 - 1 / 2000)


@pytest.mark.parametrize("k", [0, -1, 5])
def test_more_than_there_is_cannot_be_chosen_from(k: int) -> None:
    with pytest.raises(ValueError, match="cannot be taken from 4 samples"):
        chosen_probabilities([1, 2, 3, 4], k)


def test_how_far_from_the_policy() -> None:
    assert divergence_bound(1) == 0
    assert divergence_bound(16) == pytest.approx(math.log(16) - 15 / 16)


def test_steps_double_up_to_all_of_them() -> None:
    assert doubling(1) == [1]
    assert doubling(16) == [1, 2, 4, 8, 16]
    assert doubling(12) == [1, 2, 4, 8, 12]
