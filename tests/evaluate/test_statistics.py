"""What the intervals, tests and calibration promise."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from palate.stats import Estimate, brier, credit, expected_calibration_error
from palate.stats._intervals import (
    ANYWHERE,
    GAIN,
    SHARE,
    Crossed,
    Floats,
    PairedDifference,
    Quantity,
    Resamples,
    bootstrap_totals,
    cluster_totals,
    false_discovery,
    interval,
    intervals,
    paired_differences,
    ratio,
    ratio_interval,
)

FEW = 500
"""Resamples enough for what a property says."""


def users(n: int, seed: int = 0, mean: float = 0.7) -> Floats:
    """Right answers and items (users, 2) of users who differ."""
    random = np.random.default_rng(seed)
    items = 1 + random.poisson(random.lognormal(2.5, 0.8, size=n))
    right = random.binomial(items, random.beta(4 * mean, 4 * (1 - mean), size=n))
    return np.stack([right, items], axis=1).astype(np.float64)


def share_of_gap(totals: Floats) -> Floats:
    gap = totals[..., 2] - totals[..., 0]
    return np.where(gap > 0, (totals[..., 1] - totals[..., 0]) / gap, np.nan)


studies = st.lists(
    st.integers(1, 12).flatmap(lambda items: st.tuples(st.integers(0, items), st.just(items))),
    min_size=2,
    max_size=25,
).map(lambda rows: np.array(rows, dtype=np.float64))


class TestResamples:
    @given(n=st.integers(1, 40), seed=st.integers(0, 2**31))
    @settings(max_examples=30)
    def test_every_resample_draws_as_many_clusters_as_there_are(self, n: int, seed: int) -> None:
        weights = np.concatenate(list(Resamples(n, seed, 20)))
        assert weights.shape == (20, n)
        assert (weights.sum(axis=1) == n).all()

    def test_the_same_seed_gives_the_same_weights_again_and_another_seed_others(self) -> None:
        resamples = Resamples(30, seed=3, n_resamples=50)
        first, second = (np.concatenate(list(resamples)) for _ in range(2))
        assert np.array_equal(first, second)
        assert not np.array_equal(first, np.concatenate(list(Resamples(30, seed=4, n_resamples=50))))

    def test_weights_are_multinomial(self) -> None:
        weights = np.concatenate(list(Resamples(20, seed=0)))
        assert weights.mean(axis=0) == pytest.approx(np.ones(20), abs=0.05)
        assert weights.var(axis=0) == pytest.approx(np.full(20, 19 / 20), rel=0.1)

    def test_memory_stays_small_with_many_clusters(self) -> None:
        resamples = Resamples(200_000, n_resamples=100)  # 160 MB if held at once
        tracemalloc.start()
        for _ in resamples:
            pass
        assert tracemalloc.get_traced_memory()[1] < 60e6
        tracemalloc.stop()

    def test_totals_of_other_clusters_are_refused(self) -> None:
        with pytest.raises(ValueError, match="totals of 3 clusters, but resamples of 4"):
            bootstrap_totals(np.ones((3, 2)), Resamples(4))


class TestClusterTotals:
    def test_adds_up_items_by_cluster(self) -> None:
        assert cluster_totals([1, 0.5, 1], [2, 0, 2], 3).tolist() == [[0.5], [0], [2]]

    def test_no_items_are_no_credit(self) -> None:
        assert cluster_totals(np.empty((0, 2)), [], 2).tolist() == [[0, 0], [0, 0]]


class TestInterval:
    @given(totals=studies)
    @settings(max_examples=60, deadline=None)
    def test_holds_the_estimate_and_stays_in_range(self, totals: Floats) -> None:
        estimate = interval(totals, ratio, Resamples(len(totals), n_resamples=FEW), SHARE)
        assert estimate is not None
        assert estimate.value == pytest.approx(totals[:, 0].sum() / totals[:, 1].sum())
        assert 0 <= estimate.low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= estimate.high <= 1

    @given(totals=studies, factor=st.sampled_from([0.001, 0.5, 7, 1e6]))
    @settings(max_examples=40, deadline=None)
    def test_does_not_change_when_everything_is_counted_in_other_units(self, totals: Floats, factor: float) -> None:
        resamples = Resamples(len(totals), n_resamples=FEW)
        estimate, scaled = intervals([Quantity(totals, ratio), Quantity(totals * factor, ratio)], resamples)
        assert estimate is not None
        assert scaled is not None
        assert msgspec.structs.astuple(scaled) == pytest.approx(msgspec.structs.astuple(estimate), abs=1e-6)

    @given(totals=studies)
    @settings(max_examples=40, deadline=None)
    def test_errors_mirror_accuracy(self, totals: Floats) -> None:
        errors = np.stack([totals[:, 1] - totals[:, 0], totals[:, 1]], axis=1)
        right, wrong = intervals(
            [Quantity(totals, ratio), Quantity(errors, ratio)], Resamples(len(totals), n_resamples=FEW)
        )
        assert right is not None
        assert wrong is not None
        assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((right.low, right.high), abs=1e-6)

    def test_order_of_clusters_matters_no_more_than_the_seed(self) -> None:
        totals = users(60)
        one, other = (ratio_interval(*order.T, Resamples(60), within=SHARE) for order in (totals, totals[::-1]))
        assert one is not None
        assert other is not None
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.005)

    def test_many_users_give_the_textbook_interval(self) -> None:
        totals = users(2_000)
        value = totals[:, 0].sum() / totals[:, 1].sum()
        error = np.sqrt(((totals[:, 0] - value * totals[:, 1]) ** 2).sum()) / totals[:, 1].sum()
        estimate = interval(totals, ratio, Resamples(2_000, n_resamples=4_000), SHARE)
        assert estimate is not None
        assert estimate.low == pytest.approx(value - 1.96 * error, abs=0.15 * error)
        assert estimate.high == pytest.approx(value + 1.96 * error, abs=0.15 * error)

    def test_few_users_get_a_wider_interval_than_the_plain_percentile(self) -> None:
        totals = users(10)
        resamples = Resamples(10)
        low, high = np.quantile(ratio(bootstrap_totals(totals, resamples)), [0.025, 0.975])
        estimate = interval(totals, ratio, resamples, SHARE)
        assert estimate is not None
        assert estimate.low < low
        assert estimate.high > high

    def test_users_who_differ_widen_it_and_rows_do_not_count(self) -> None:
        alike = np.tile([7.0, 10.0], (40, 1))
        apart = np.array([[10.0, 10.0]] * 28 + [[0.0, 10.0]] * 12)
        narrow, wide = intervals([Quantity(alike, ratio), Quantity(apart, ratio)], Resamples(40))
        assert narrow == Estimate(pytest.approx(0.7), pytest.approx(0.7), pytest.approx(0.7))
        assert wide is not None
        assert wide.high - wide.low > 0.25

    def test_a_whole_table_says_the_same_as_one_at_a_time(self) -> None:
        resamples = Resamples(30, n_resamples=FEW)
        table = [Quantity(users(30, seed), ratio, SHARE) for seed in range(150)]  # more than one pass holds
        together = intervals(table, resamples)
        assert len(together) == 150
        for index in (0, 101, 102, 103, 149):
            alone, estimate = interval(table[index].totals, ratio, resamples, SHARE), together[index]
            assert alone is not None
            assert estimate is not None
            assert msgspec.structs.astuple(alone) == pytest.approx(msgspec.structs.astuple(estimate))
        assert intervals([], resamples) == []

    def test_the_delta_method_agrees_with_the_spread_of_the_resamples(self) -> None:
        """For a ratio of differences, whose variance nobody wants to write down."""
        random = np.random.default_rng(0)
        items = random.integers(20, 60, size=400)
        none = random.binomial(items, random.beta(5, 5, size=400))
        oracle = none + random.binomial(items - none, 0.5)
        view = none + random.binomial(oracle - none, random.beta(2, 2, size=400))
        totals = np.stack([none, view, oracle], axis=1).astype(np.float64)
        resamples = Resamples(400)
        estimate = interval(totals, share_of_gap, resamples)
        spread = share_of_gap(bootstrap_totals(totals, resamples)).std()
        assert estimate is not None
        assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * spread, rel=0.06)

    def test_limits_are_plain_finite_numbers(self) -> None:
        estimate = ratio_interval([9, 10, 10, 10], [10] * 4, Resamples(4), within=SHARE)
        assert json.loads(msgspec.json.encode(estimate))["high"] == 1.0

    @pytest.mark.parametrize(("right", "users"), [(17, 20), (18, 20), (19, 20), (39, 40), (45, 50)])
    def test_few_who_differ_do_not_push_the_limit_anywhere(self, right: int, users: int) -> None:
        found = ratio_interval([1] * right + [0] * (users - right), [1] * users, Resamples(users), SHARE)
        wilson = stats.binomtest(right, users).proportion_ci(method="wilson")
        assert found is not None
        assert found.low == pytest.approx(wilson.low, abs=0.06)

    @pytest.mark.parametrize("values", [[0.17, 0.18], [0.1, 0.3, 0.2], [0.4, 0.1, 0.2, 0.2]])
    def test_two_or_three_users_say_no_more_than_students_interval_does(self, values: list[float]) -> None:
        found = ratio_interval(values, [1] * len(values), Resamples(len(values)), ANYWHERE)
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert found is not None
        assert found.low <= low + 1e-9 and found.high >= high - 1e-9

    @pytest.mark.parametrize("users", [2, 8, 30])
    def test_users_who_are_all_served_perfectly_do_not_prove_that_the_next_will_be(self, users: int) -> None:
        for right in (0, 1):
            found = ratio_interval([right * 3] * users, [3] * users, Resamples(users), SHARE)
            exact = stats.binomtest(right * users, users).proportion_ci(method="exact")
            assert found is not None
            assert (found.low, found.high) == pytest.approx((exact.low, exact.high))

    @pytest.mark.parametrize(
        ("numerators", "denominators"),
        [([3], [4]), ([3, 0, 0], [4, 0, 0]), ([0, 0], [0, 0]), ([], [])],
        ids=["one user", "one user with data", "no data", "nobody"],
    )
    def test_says_nothing_with_fewer_than_two_users(self, numerators: list[float], denominators: list[float]) -> None:
        resamples = Resamples(len(numerators), n_resamples=FEW)
        assert ratio_interval(numerators, denominators, resamples, within=SHARE) is None

    def test_says_nothing_when_the_value_is_often_undefined(self) -> None:
        seldom = np.zeros((30, 2))
        seldom[:2] = [[1, 2], [2, 2]]  # one resample in seven holds neither user
        assert interval(seldom, ratio, Resamples(30, n_resamples=FEW), SHARE) is None

    def test_says_nothing_about_the_share_of_a_gap_that_may_not_exist(self) -> None:
        totals = np.array([[5.0, 6, 6], [6, 6, 5], [5, 5, 6], [4, 5, 4]])
        assert interval(totals, share_of_gap, Resamples(4, n_resamples=FEW)) is None

    @pytest.mark.parametrize("mean", [0.55, 0.9])
    def test_covers_with_thirty_users(self, mean: float) -> None:
        """A small look; benchmarks/coverage.py is the real one."""
        table = [Quantity(users(30, seed, mean), ratio, SHARE) for seed in range(400)]
        estimates = intervals(table, Resamples(30, n_resamples=1_000))
        covered = np.mean([e is not None and e.low <= mean <= e.high for e in estimates])
        assert 0.91 <= covered <= 0.98


def difference(sums: Sequence[float], counts: Sequence[float] | None = None, **options: Any) -> PairedDifference:
    """Of users who have these sums of differences over so many items, one each unless told."""
    totals = np.stack([np.asarray(sums, float), np.asarray(counts or [1.0] * len(sums), float)], axis=1)
    return paired_differences([Quantity(totals, ratio, GAIN, **options)], Resamples(len(sums), n_resamples=2_000))[0]


class TestPairedDifferences:
    @given(st.lists(st.integers(-5, 5), min_size=2, max_size=9))
    @settings(deadline=None, max_examples=60)
    def test_few_users_are_never_clearer_than_flipping_all_signs_says(self, sums: list[int]) -> None:
        flips = itertools.product([1, -1], repeat=len(sums))
        totals = [abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in flips]
        assert difference(sums, [5] * len(sums)).p >= np.mean([t >= abs(sum(sums)) for t in totals]) - 1e-12

    def test_users_who_all_gain_the_same_get_the_exact_answer(self) -> None:
        assert difference([1] * 5).p == 2 / 2**5
        assert difference([1] * 9).p == 2 / 2**9

    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=40), st.sampled_from([-1.0, 0.5]))
    @settings(deadline=None, max_examples=50)
    def test_is_a_probability_that_ignores_sign_and_units(self, sums: list[float], factor: float) -> None:
        assume(all(one == 0 or abs(one) > 1e-6 for one in sums))
        found, other = difference(sums), difference([factor * one for one in sums])
        assert 0 < found.p <= 1
        assert other.p == pytest.approx(found.p, abs=0.02)

    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
    @settings(deadline=None, max_examples=80)
    def test_holds_the_value_and_agrees_with_the_test_about_zero(self, sums: list[float]) -> None:
        found = difference(sums)
        assert found.low is not None and found.high is not None
        assert -1 <= found.low <= found.difference + 1e-12 and found.difference - 1e-12 <= found.high <= 1
        if found.p >= 0.05:
            assert found.low <= 0 <= found.high
        if found.p < 0.045:
            assert found.low > 0 or found.high < 0
        assert (found.carried_by is None) == (found.low <= 0 <= found.high)

    def test_thirds_that_add_up_to_the_same_are_the_same(self) -> None:
        thirds = [1 / 3, 1 / 3, 1 / 3, -1.0, 2 / 3, 1 / 7, 1 / 7]
        whole = [7 / 21, 7 / 21, 7 / 21, -21 / 21, 14 / 21, 3 / 21, 3 / 21]
        assert difference(thirds).p == pytest.approx(difference(whole).p)

    def test_many_users_come_near_the_normal_answer_and_repeat(self) -> None:
        sums = np.random.default_rng(1).normal(0.035, 0.15, size=300)
        z = sums.mean() / (sums.std(ddof=1) / np.sqrt(300))
        found = difference(sums.tolist())
        assert found.p == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.03)
        assert found == difference(sums.tolist())

    def test_nobody_who_differs_is_no_difference_and_no_test(self) -> None:
        table = [Quantity(np.array([[d, 1.0]] * 20), ratio, GAIN) for d in (0.0, 0.3, 0.0)]
        zero, gained, _ = paired_differences(table, Resamples(20))
        assert (zero.low, zero.high, zero.p, zero.q) == (0, 0, 1, 1)
        assert gained.q == gained.p < 0.001, "the two that cannot differ do not count as tests"

    def test_one_user_gets_no_interval(self) -> None:
        found = difference([1])
        assert (found.low, found.high, found.p) == (None, None, 1)

    @pytest.mark.parametrize("values", [[0.17, 0.18], [0.1, 0.3, 0.2], [0.4, 0.1, 0.2, 0.2]])
    def test_few_users_say_no_more_than_students_interval_does(self, values: list[float]) -> None:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        found = difference(values)
        assert found.low is not None and found.high is not None
        assert found.low <= max(low, -1) + 1e-9 and found.high >= min(high, 1) - 1e-9

    def test_a_table_of_many_says_the_same_as_one_at_a_time(self) -> None:
        random = np.random.default_rng(3)
        table = [
            Quantity(np.stack([random.normal(0.1, 0.2, 30), np.ones(30)], axis=1), ratio, GAIN) for _ in range(300)
        ]
        resamples = Resamples(30, n_resamples=FEW)
        together = paired_differences(table, resamples)
        for index in (0, 255, 256, 299):
            [alone] = paired_differences([table[index]], resamples)
            assert (alone.low, alone.high, alone.p) == pytest.approx(
                (together[index].low, together[index].high, together[index].p)
            )
        assert paired_differences([], resamples) == []


class TestSkewedStudies:
    """A small look; benchmarks/coverage.py is the real one."""

    def test_the_test_is_of_a_mean_of_zero_and_not_of_symmetry(self) -> None:
        """One user in twenty gains 45 points, and what the others lose makes up for it."""
        random = np.random.default_rng(4)
        studies = []
        for _ in range(300):
            effects = np.where(random.random(149) < 0.05, 0.45, -0.05 * 0.45 / 0.95)
            up = random.binomial(20, 0.02 + np.maximum(effects, 0))
            down = random.binomial(20 - up, (0.02 + np.maximum(-effects, 0)) / (1 - 0.02 - np.maximum(effects, 0)))
            studies.append(Quantity(np.stack([up - down, np.full(149, 20)], axis=1).astype(float), ratio, GAIN))
        found = paired_differences(studies, Resamples(149, n_resamples=1_000))
        assert 0.02 <= np.mean([one.p < 0.05 for one in found]) <= 0.08
        assert 0.92 <= np.mean([one.low <= 0 <= one.high for one in found]) <= 0.98  # type: ignore[operator]

    def test_heavy_raters_few_of_whom_gain(self) -> None:
        random = np.random.default_rng(5)
        studies = []
        for _ in range(300):
            items = np.where(random.random(50) < 0.2, 200, 5)
            effects = np.where(random.random(50) < 0.1, 0.45, -0.05)
            up = random.binomial(items, 0.06 + np.maximum(effects, 0))
            down = random.binomial(items - up, (0.06 + np.maximum(-effects, 0)) / (0.94 - np.maximum(effects, 0)))
            studies.append(Quantity(np.stack([up - down, items], axis=1).astype(float), ratio, GAIN))
        found = paired_differences(studies, Resamples(50, n_resamples=1_000))
        assert np.mean([one.p < 0.05 for one in found]) <= 0.12


def shared_items(random: np.random.Generator, users: int, items: int, between_items: float) -> Quantity:
    """Everybody judges the same items, and what an item is like counts for everybody; the true gain is .05."""
    effects = 0.05 + random.normal(0, 0.1, (users, 1)) + random.normal(0, between_items, items)
    drawn = random.random((users, items))
    up, down = 0.1 + np.maximum(effects, 0), 0.1 + np.maximum(-effects, 0)
    values = (drawn < up).astype(float) - ((drawn >= up) & (drawn < up + down))
    cells = np.stack([values, np.ones_like(values)], axis=2)
    return Quantity(cells.sum(axis=1), ratio, GAIN, Crossed(cells.sum(axis=0), cells.reshape(-1, 2)))


class TestSharedItems:
    def test_intervals_hold_for_new_users_and_new_items(self) -> None:
        random = np.random.default_rng(6)
        studies = [shared_items(random, 200, 32, 0.1) for _ in range(200)]
        alone = [replace(study, crossed=None) for study in studies]
        for table, least, most in ((studies, 0.91, 0.99), (alone, 0.4, 0.8)):
            found = paired_differences(table, Resamples(200, n_resamples=500))
            held = np.mean([one.low <= 0.05 <= one.high for one in found])  # type: ignore[operator]
            assert least <= held <= most

    def test_accuracies_get_wider_too_and_never_narrower(self) -> None:
        random = np.random.default_rng(8)
        for between_items in (0.0, 0.2):
            study = replace(shared_items(random, 100, 20, between_items), within=ANYWHERE)
            wide, narrow = intervals([study, replace(study, crossed=None)], Resamples(100, n_resamples=FEW))
            assert wide is not None and narrow is not None
            assert wide.low <= narrow.low and wide.high >= narrow.high
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)

    def test_items_that_nobody_shares_change_nothing(self) -> None:
        totals = users(40)
        crossed = Crossed(by_unit=totals, by_cell=totals)  # every user has one unit of their own
        plain, own = intervals(
            [Quantity(totals, ratio, SHARE), Quantity(totals, ratio, SHARE, crossed)], Resamples(40, n_resamples=FEW)
        )
        assert plain is not None and own is not None
        assert own.high - own.low == pytest.approx(plain.high - plain.low, rel=0.03)


class TestCarriedBy:
    def test_few_users_carry_what_only_they_have(self) -> None:
        noise = np.random.default_rng(0).normal(0, 0.02, 100)
        few = difference([*(0.9 * np.ones(8)), *noise[8:]])
        many = difference((noise + 0.07).tolist())
        assert few.difference == pytest.approx(many.difference, abs=0.01)
        assert few.carried_by is not None and few.carried_by <= 8
        assert many.carried_by is not None and many.carried_by > 30

    def test_a_loss_is_carried_as_a_gain_is(self) -> None:
        gains = np.random.default_rng(1).normal(0.1, 0.3, 80)
        assert difference(gains.tolist()).carried_by == difference((-gains).tolist()).carried_by

    def test_what_everybody_has_is_carried_by_everybody(self) -> None:
        assert difference([0.4] * 12).carried_by == 12


class TestFalseDiscovery:
    def test_known_values(self) -> None:
        assert false_discovery([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.04, 0.04, 0.5])
        assert false_discovery([0.2]) == [0.2]
        assert false_discovery([]) == []

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
    def test_never_below_p_and_in_the_same_order(self, p_values: list[float]) -> None:
        q_values = false_discovery(p_values)
        assert all(p <= q + 1e-12 <= 1 + 1e-9 for p, q in zip(p_values, q_values, strict=True))
        ordered = [q for _, q in sorted(zip(p_values, q_values, strict=True))]
        assert ordered == sorted(ordered)


class TestCredit:
    @pytest.mark.parametrize(
        ("scores", "preferred", "expected"),
        [
            ([1, 2], 1, 1),
            ([1, 2], 0, 0),
            ([2, 2], 0, 1 / 2),
            ([2, 2, 2], 1, 1 / 3),
            ([2, 2, 1], 2, 0),
            ([0.1 + 0.2, 0.3], 1, 0),  # a tie is exact equality
            ([-0.0, 0.0], 0, 1 / 2),
        ],
    )
    def test_known_values(self, scores: list[float], preferred: int, expected: float) -> None:
        assert credit(scores, preferred) == expected

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def test_one_credit_is_shared_out_over_the_responses(self, scores: list[int]) -> None:
        assert sum(credit(scores, index) for index in range(len(scores))) == pytest.approx(1)


class TestCalibration:
    def test_brier_known_values(self) -> None:
        assert brier([[0.5, 0.5]], [1]) == 0.25
        assert brier([[0.8, 0.2]], [0]) == pytest.approx(0.04)  # the binary score: (1 - 0.8) squared
        assert brier([[0.8, 0.2], [0.5, 0.25, 0.25]], [0, 1]) == pytest.approx((0.04 + 0.4375) / 2)

    def test_calibration_error_known_values(self) -> None:
        assert expected_calibration_error([[0.5, 0.5]], [1]) == 0  # claims a half, gets a half
        assert expected_calibration_error([[1.0, 0.0]], [1]) == 1
        mixed = [[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.4, 0.6]]
        assert expected_calibration_error(mixed, [0, 1, 0, 1]) == pytest.approx((2 * 0.45 + 2 * 0.4) / 4)

    def test_responses_may_differ_in_number(self) -> None:
        ragged = [[0.7, 0.2, 0.1], [0.25, 0.75]]
        assert expected_calibration_error(ragged, [0, 1]) == pytest.approx((0.3 + 0.25) / 2)

    @given(st.integers(0, 10_000))
    @settings(max_examples=20)
    def test_honest_probabilities_are_nearly_calibrated(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        first = random.random(3_000)
        preferred = (random.random(3_000) > first).astype(int).tolist()
        honest = np.stack([first, 1 - first], axis=1).tolist()
        assert expected_calibration_error(honest, preferred) < 0.06
        assert brier(honest, preferred) == pytest.approx(1 / 6, abs=0.03)

    def test_gain_range_is_wider_than_share(self) -> None:
        worse = ratio_interval([-3, -2, -4, -3], [10] * 4, Resamples(4), within=GAIN)
        assert worse is not None
        assert worse.low < worse.value < 0
