"""The worst tenth of users: no worse than the rest where all are alike, and found where some are served badly."""

import numpy as np
import pytest

from palate.stats import Halves


def credits_of(chances: np.ndarray, items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    users = np.repeat(np.arange(len(chances)), items)
    right = np.random.default_rng(seed).random(len(users)) < chances[users]
    return users, right.astype(float)


def naive(users: np.ndarray, credits: np.ndarray) -> float:
    means = np.sort(np.bincount(users, credits) / np.bincount(users))
    return float(means[: len(means) // 10].mean())


@pytest.mark.parametrize("items", [4, 9])
def test_of_users_who_are_alike_the_worst_tenth_is_like_the_rest(items: int) -> None:
    found, apparent, held = [], [], []
    for seed in range(60):
        users, credits = credits_of(np.full(100, 0.7), items, seed)
        worst = Halves(users, range(len(users)), seed).worst_tenth(credits)
        assert worst is not None
        found.append(worst.accuracy)
        apparent.append(naive(users, credits))
        held.append(worst.low <= 0.7 <= worst.high)
    assert np.mean(found) == pytest.approx(0.7, abs=0.02)
    assert np.mean(apparent) < 0.5
    assert np.mean(held) >= 0.95


def test_users_who_are_served_badly_are_found() -> None:
    chances = np.where(np.arange(100) % 10 == 0, 0.2, 0.8)
    users, credits = credits_of(chances, 40, 0)
    worst = Halves(users, range(len(users))).worst_tenth(credits)
    assert worst is not None
    assert worst.accuracy == pytest.approx(0.2, abs=0.08)
    assert worst.everybody == pytest.approx(0.74, abs=0.03)
    assert worst.users == 100


def test_items_of_one_unit_are_not_parted() -> None:
    """Every item twice, with the same outcome: parted, luck in one half would be luck in the other."""
    found = {}
    for name in ("together", "apart"):
        values = []
        for seed in range(40):
            users, credits = credits_of(np.full(100, 0.7), 4, seed)
            units = np.arange(len(users))
            users, credits, units = (np.repeat(one, 2) for one in (users, credits, units))
            names = units if name == "together" else np.arange(len(users))
            worst = Halves(users, names.tolist(), seed).worst_tenth(credits)
            assert worst is not None
            values.append(worst.accuracy)
        found[name] = np.mean(values)
    assert found["together"] == pytest.approx(0.7, abs=0.03)
    assert found["apart"] < 0.6


def test_too_few_users_or_items_say_nothing() -> None:
    users, credits = credits_of(np.full(49, 0.7), 10, 0)
    assert Halves(users, range(len(users))).worst_tenth(credits) is None
    users, credits = credits_of(np.full(200, 0.7), 3, 0)
    assert Halves(users, range(len(users))).worst_tenth(credits) is None
    users, credits = credits_of(np.full(60, 0.7), 8, 0)
    half = Halves(users, range(len(users)))
    assert half.worst_tenth(credits) == Halves(users, range(len(users))).worst_tenth(credits)
    credits[users < 11] = np.nan
    assert half.worst_tenth(credits) is None
