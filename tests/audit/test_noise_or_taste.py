"""Noise is not called taste, and a habit that was planted is found with about its size."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from planted_audits import benchmark_of, choice, written

from palate.audit import BenchmarkAudit, audit_benchmark
from palate.audit._conflicts import find_conflicts, measure_self_agreement, pair_codes
from palate.audit._habits import length_leaning, measure_habit, measure_positions, shuffle_test
from palate.evaluation import Ratings, rated_item
from palate.records import Benchmark, Comparison, User

Votes = np.ndarray
"""Users × pairs (× times): 1 where the second response was taken, which is the longer one where lengths differ."""


def judged(votes: Votes, *, longer: bool = False, shared: bool = True, **more: object) -> Benchmark:
    """A benchmark in which everybody judges every pair, or everybody their own."""
    items: list[Comparison] = []
    times = votes if votes.ndim == 3 else votes[:, :, None]
    for user, pair, time in np.ndindex(times.shape):
        number = pair if shared else user * votes.shape[1] + pair
        item = choice(f"{user}-{pair}-{time}", f"u{user:03}", number, int(times[user, pair, time]), **more)
        if longer:
            item = msgspec.structs.replace(item, responses=(item.responses[0], item.responses[1] + " And much more."))
        items.append(item)
    return benchmark_of([User(id=f"u{user:03}") for user in range(len(votes))], items)


def ratings_of(benchmark: Benchmark) -> Ratings:
    return Ratings([rated_item(item, benchmark) for item in benchmark.comparisons], {})


def erring(truth: Votes, error: float, random: np.random.Generator, times: int = 1) -> Votes:
    """What people say who want `truth` and err so often."""
    wanted = np.repeat(truth[:, :, None], times, axis=2)
    said = np.where(random.random(wanted.shape) < error, 1 - wanted, wanted)
    return said[:, :, 0] if times == 1 else said


def said(audit: BenchmarkAudit, words: str) -> list[str]:
    return [one.severity for one in audit.findings if words in one.text]


def test_noise_is_not_called_taste(tmp_path: Path) -> None:
    """One true choice a pair, and every judge errs 15% of the time."""
    random = np.random.default_rng(0)
    truth = np.broadcast_to(random.integers(2, size=60), (12, 60))
    audit = audit_benchmark(written(judged(erring(truth, 0.15, random)), tmp_path / "b"), impersonal=False)
    assert audit.conflicts.conflict_share is not None and audit.conflicts.conflict_share > 0.6
    assert audit.conflicts.error_rate == pytest.approx(0.15, abs=0.03)
    assert said(audit, "cannot be told apart") == ["warning"]
    assert not said(audit, "want different things")


def test_what_people_repeat_of_themselves_and_not_of_others_is_taste(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    votes = erring(random.integers(2, size=(12, 40)), 0.1, random, times=2)
    audit = audit_benchmark(written(judged(votes), tmp_path / "b"), impersonal=False)
    own = audit.conflicts.self_agreement
    assert own is not None and own.n == 12 * 40 and own.users == 12
    assert own.own == pytest.approx(0.82, abs=0.05) and own.others == pytest.approx(0.5, abs=0.05)
    assert own.q < 0.05 and own.low is not None and own.low > 0.2
    assert said(audit, "want different things") == ["good"]


def test_errors_that_people_repeat_as_often_as_others_make_them_may_be_noise(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    votes = erring(np.broadcast_to(random.integers(2, size=40), (12, 40)), 0.15, random, times=2)
    audit = audit_benchmark(written(judged(votes), tmp_path / "b"), impersonal=False)
    assert said(audit, "that may be noise") == ["warning"]
    assert not said(audit, "want different things")


def test_rows_that_an_export_repeats_are_not_called_taste(tmp_path: Path) -> None:
    """Everybody throws a coin, and every row is there twice."""
    votes = np.repeat(np.random.default_rng(4).integers(2, size=(12, 40, 1)), 2, axis=2)
    audit = audit_benchmark(written(judged(votes), tmp_path / "b"), impersonal=False)
    assert audit.conflicts.self_agreement is not None and audit.conflicts.self_agreement.own == 1
    assert not said(audit, "want different things")
    assert said(audit, "rows that an export repeats") == ["warning"]


def test_judgements_again_are_compared_by_hand() -> None:
    """u000 agrees with itself on the one pair, and with one of the two others."""
    votes = [choice("a", "u0", 0, 1), choice("b", "u0", 0, 1), choice("c", "u1", 0, 1), choice("d", "u2", 0, 0)]
    found = find_conflicts(ratings_of(benchmark_of([User(id=f"u{n}") for n in range(3)], votes)), 0).self_agreement
    assert found is not None and (found.n, found.own, found.others) == (1, 1.0, 0.5)


def test_noise_passes_for_self_agreement_at_the_stated_rate() -> None:
    random = np.random.default_rng(3)
    low, rounds = 0, 200
    for seed in range(rounds):
        truth = np.broadcast_to(random.integers(2, size=8), (4, 8))
        ratings = ratings_of(judged(erring(truth, 0.2, random, times=2)))
        found = measure_self_agreement(ratings, pair_codes(ratings.items), seed, shuffles=99)
        low += found is not None and found.p <= 0.05
    assert 0.01 <= low / rounds <= 0.1


def strata_of(shape: str, users: int, pairs: int) -> np.ndarray:
    """By judgement: each pair for itself, where everybody shares it; else all together."""
    return np.tile(np.arange(pairs), users) if shape == "shared" else np.zeros(users * pairs, dtype=np.intp)


@pytest.mark.parametrize("shape", ["shared", "unshared"])
def test_coins_pass_for_a_habit_at_the_stated_rate(shape: str) -> None:
    random = np.random.default_rng(4)
    users, pairs, rounds = 20, 12, 200
    who, strata = np.repeat(np.arange(users), pairs), strata_of(shape, users, pairs)
    low = 0
    for seed in range(rounds):
        chance = np.tile(random.uniform(0.1, 0.9, size=pairs), users) if shape == "shared" else 0.6
        taken = (random.random(users * pairs) < chance).astype(float)
        low += shuffle_test(taken, who, strata, seed, shuffles=199) <= 0.05
    assert 0.01 <= low / rounds <= 0.1


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("often", "spread"), [(1.0, 0.5), (0.6, 0.1)])
def test_a_habit_of_length_is_found_with_its_size(often: float, spread: float, shared: bool) -> None:
    """Half of the people take the longer so often, the others the shorter."""
    random = np.random.default_rng(5)
    shares = np.where(np.arange(60) % 2, often, 1 - often)[:, None]
    votes = (random.random((60, 40)) < shares).astype(int)
    ratings = ratings_of(judged(votes, longer=True, shared=shared))
    lean = length_leaning(ratings)
    assert lean.within_pairs == (len(votes) * 40 if shared else 0)
    habit = measure_habit(ratings, lean, seed=0)
    assert habit is not None and habit.p <= 0.01
    assert habit.spread == pytest.approx(spread, rel=0.25)
    assert habit.low is not None and habit.high is not None and habit.low < spread * 1.02 and habit.high > spread * 0.98


def test_a_habit_is_what_departs_from_others_of_the_same_pair() -> None:
    """Everybody takes the longer of some pairs and the shorter of others, so nobody has a habit."""
    votes = np.broadcast_to(np.arange(40) % 3 > 0, (20, 40)).astype(int)
    ratings = ratings_of(judged(votes, longer=True))
    habit = measure_habit(ratings, length_leaning(ratings), seed=0)
    assert habit is not None and habit.spread == 0.0 and habit.p == 1.0


def test_one_long_record_does_not_make_a_habit() -> None:
    random = np.random.default_rng(6)
    sizes = np.array([400] + [6] * 30)
    who = np.repeat(np.arange(31), sizes)
    low = 0
    for seed in range(100):
        taken = (random.random(len(who)) < 0.6).astype(float)
        low += shuffle_test(taken, who, np.zeros(len(who), dtype=np.intp), seed, shuffles=99) <= 0.05
    assert low / 100 <= 0.12


def test_a_habit_of_length_is_told_and_noise_in_length_is_not(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    shares = np.where(np.arange(24) % 2, 0.9, 0.1)[:, None]
    votes = (random.random((24, 40)) < shares).astype(int)
    audit = audit_benchmark(written(judged(votes, longer=True), tmp_path / "habit"), impersonal=False)
    assert said(audit, "Users differ in how often they take the longest response") == ["note"]
    assert said(audit, "part of that is personal") == ["good"]
    votes = random.integers(2, size=(24, 40))
    audit = audit_benchmark(written(judged(votes, longer=True), tmp_path / "noise"), impersonal=False)
    assert not said(audit, "Users differ in how often") and said(audit, "cannot be told apart") == ["warning"]


def test_a_habit_of_position_is_found_and_coins_are_none() -> None:
    random = np.random.default_rng(8)
    for often, clear in ((0.9, True), (0.5, False)):
        shares = np.where(np.arange(30) % 2, often, 1 - often)[:, None]
        held = judged((random.random((30, 15)) < shares).astype(int), shown=(1, 0))
        found = measure_positions(held, ratings_of(held), seed=0)
        assert found is not None and found.habit is not None and found.chance == 0.5
        assert (found.habit.p < 0.01) == clear
        assert (abs(found.habit.spread - 0.4) < 0.08) == clear
    assert measure_positions(judged(np.zeros((2, 2), dtype=int)), ratings_of(held), seed=0) is None


def test_a_record_that_changed_is_told_from_coins_and_from_people_who_came_at_different_times() -> None:
    random = np.random.default_rng(9)

    def p_value(shares: np.ndarray) -> float:
        held = judged((random.random((20, 12)) < shares).astype(int), shown=(1, 0), shared=False)
        dated = [
            msgspec.structs.replace(item, date=f"20{10 + int(item.id.split('-')[by]):02}-01-01")
            for by in [1 if shares.shape == (12,) else 0]
            for item in held.comparisons
        ]
        held = benchmark_of(list(held.users.values()), dated)
        found = measure_positions(held, ratings_of(held), seed=0)
        assert found is not None and found.over_time is not None
        return found.over_time_p

    assert p_value(np.where(np.arange(12) < 4, 0.9, 0.3)) < 0.01
    assert p_value(np.full(12, 0.5)) > 0.05
    assert p_value(np.where(np.arange(20) < 8, 0.9, 0.2)[:, None]) == 1.0, "nobody was there before and after"
