"""Whether another half of the users, or of the items, puts models into the same order."""

from __future__ import annotations

import numpy as np
import pytest

from palate.audit._stability import measure_stability
from palate.evaluation import RatedItem, Ratings
from palate.records import Rating


def ratings_of(accuracies: dict[str, float], users: int, items: int, seed: int = 0) -> Ratings:
    draw = np.random.default_rng(seed)
    rated = [
        RatedItem(id=f"{u}-{i}", user_id=f"u{u}", prompt=f"{u} {i}?", responses=("a", "b"), preferred=0)
        for u in range(users)
        for i in range(items)
    ]
    return Ratings(
        rated,
        {
            (rm, "none"): {(item.id, 0): Rating([1.0, 0.0] if draw.random() < share else [0.0, 1.0]) for item in rated}
            for rm, share in accuracies.items()
        },
    )


def test_models_that_differ_much_keep_their_order() -> None:
    ratings = ratings_of({"good": 0.8, "fair": 0.65, "poor": 0.5}, users=60, items=20)
    found = measure_stability(ratings, list(ratings.credits), 0)
    assert found is not None and found.models == 3
    assert [one.over for one in found.splits] == ["users", "items"]
    assert all(one.kept > 0.98 and one.best_kept > 0.98 for one in found.splits)


def test_models_that_are_alike_keep_it_half_of_the_time() -> None:
    kept = []
    for seed in range(6):
        ratings = ratings_of(dict.fromkeys("abcd", 0.6), users=20, items=6, seed=seed)
        found = measure_stability(ratings, list(ratings.credits), seed)
        assert found is not None
        kept.append(found.splits[0].kept)
    assert 0.25 < np.mean(kept) < 0.75


def test_as_many_users_as_are_said_to_be_needed_are_enough() -> None:
    ratings = ratings_of({"a": 0.7, "b": 0.6}, users=60, items=10)
    found = measure_stability(ratings, list(ratings.credits), 0)
    assert found is not None
    users = next(one.users for one in found.needed if one.difference == 0.1)
    draw = np.random.default_rng(1)
    right = draw.binomial(users * 10, 0.7, 2_000) > draw.binomial(users * 10, 0.6, 2_000)
    assert np.mean(right) == pytest.approx(0.95, abs=0.03)


def test_a_tie_for_the_best_is_no_proof_that_the_best_stays() -> None:
    ratings = ratings_of({"a": 0.6}, users=20, items=6)
    twins = Ratings(ratings.items, {})
    twins.credits = {(name, "none"): ratings.credits["a", "none"] for name in "abc"}
    found = measure_stability(twins, list(twins.credits), 0)
    assert found is not None
    assert all(one.kept == 0.5 and one.best_kept == pytest.approx(1 / 3) for one in found.splits)


def test_one_model_has_no_order() -> None:
    ratings = ratings_of({"a": 0.6}, users=10, items=4)
    assert measure_stability(ratings, list(ratings.credits), 0) is None
