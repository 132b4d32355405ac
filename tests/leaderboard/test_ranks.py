from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from palate.leaderboard._ranks import rank_models
from palate.stats import GAIN, Resamples, against_rest, all_pairs, paired_tests
from palate.stats._clusters import Units


def skilled(skills: list[float], users: int = 60, items: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(users), items)
    return np.stack([(random.random(users * items) < skill).astype(float) for skill in skills]), clusters


class TestAllPairs:
    def test_the_test_is_students_on_users(self) -> None:
        values, clusters = skilled([0.8, 0.6])
        found = all_pairs(values, clusters)
        sums = np.bincount(clusters, values[0] - values[1])
        difference = (values[0] - values[1]).mean()
        error = np.sqrt(np.sum((sums - difference * 6) ** 2) * 60 / 59) / 360
        assert found.difference[0, 1] == pytest.approx(difference)
        assert found.p[0, 1] == pytest.approx(2 * stats.t.sf(abs(difference) / error, 59))

    def test_the_resampling_test_of_two_runs_is_never_less_strict(self) -> None:
        values, clusters = skilled([0.72, 0.66, 0.6, 0.55])
        quick = all_pairs(values, clusters)
        users = np.array([f"{code}" for code in clusters])
        pairs = [(0, 1), (0, 2), (0, 3), (1, 3)]
        full = paired_tests([(values[a] - values[b], GAIN) for a, b in pairs], clusters, users, Resamples(60))
        for (a, b), test in zip(pairs, full, strict=True):
            assert test is not None and test.p >= quick.p[a, b] - 1e-9
        assert full[2] is not None and full[2].p < 0.05 and quick.p[0, 3] < 0.05

    def test_unscored_items_are_left_out_pair_by_pair(self) -> None:
        values, clusters = skilled([0.8, 0.6, 0.7])
        gaps = values.copy()
        gaps[0, ::7] = np.nan
        kept = ~np.isnan(gaps[0])
        found, alone = all_pairs(gaps, clusters), all_pairs(values[:, kept], clusters[kept])
        assert found.difference[0, 1] == pytest.approx(alone.difference[0, 1])
        assert found.p[1, 0] == found.p[0, 1] == pytest.approx(alone.p[0, 1])
        assert found.p[1, 2] == pytest.approx(all_pairs(values, clusters).p[1, 2])

    def test_one_row_at_a_time_gives_the_same_as_all_at_once(self) -> None:
        values, clusters = skilled([0.8, 0.6, 0.7])
        extra = np.concatenate([values, [[np.nan] + [1.0] * (values.shape[1] - 1)]])
        assert np.allclose(all_pairs(extra, clusters).p[:3, :3], all_pairs(values, clusters).p)

    def test_items_that_many_users_judge_widen_it(self) -> None:
        values, clusters = skilled([0.8, 0.6])
        items = np.tile(np.arange(6), 60)
        values[0, items == 0], values[1, items == 0] = 1.0, 0.0  # one question makes the difference
        units = Units(items, np.arange(360), np.full(6, 60))
        assert all_pairs(values, clusters, units).p[0, 1] > all_pairs(values, clusters).p[0, 1]

    def test_models_that_never_differ_are_not_tested(self) -> None:
        values, clusters = skilled([0.8])
        assert all_pairs(np.concatenate([values, values]), clusters).p[0, 1] == 1


class TestRanks:
    def test_models_that_cannot_be_told_apart_share_a_rank(self) -> None:
        values, clusters = skilled([0.8, 0.8, 0.55, 0.55, 0.2])
        found = rank_models(values, clusters, None, [1] * 5, seed=0)
        assert [one.rank for one in found.ranks] == [1, 1, 3, 3, 5]
        assert [one.better for one in found.ranks] == [3, 3, 1, 1, 0]

    def test_the_best_of_many_variants_has_to_be_better_by_more(self) -> None:
        values, clusters = skilled([0.72, 0.62], seed=3)
        p = all_pairs(values, clusters).p[0, 1]
        assert 0.0005 < p < 0.05
        once = rank_models(values, clusters, None, [1, 1], seed=0)
        often = rank_models(values, clusters, None, [1000, 1], seed=0)
        loser = rank_models(values, clusters, None, [1, 1000], seed=0)
        assert [one.rank for one in once.ranks] == [one.rank for one in loser.ranks] == [1, 2]
        assert [one.rank for one in often.ranks] == [1, 1]

    def test_few_users_rank_nobody(self) -> None:
        values, clusters = skilled([0.9, 0.1], users=9)
        assert [one.rank for one in rank_models(values, clusters, None, [1, 1], seed=0).ranks] == [None, None]

    def test_a_leader_by_luck_does_not_survive_halves_and_a_real_one_does(self) -> None:
        boards = [rank_models(*skilled([0.6] * 8, seed=seed), None, [1] * 8, seed=0) for seed in range(10)]
        assert np.mean([board.leader_stays for board in boards]) < 0.5
        assert max(one.last - one.first for one in boards[0].ranks) >= 4
        real = rank_models(*skilled([0.95] + [0.6] * 7), None, [1] * 8, seed=0)
        assert real.leader_stays == 1.0
        assert (real.ranks[0].first, real.ranks[0].last) == (1, 1)

    def test_equal_models_seldom_get_different_ranks(self) -> None:
        false = 0
        for seed in range(60):
            found = rank_models(*skilled([0.6] * 10, users=30, seed=seed), None, [1] * 10, seed=0)
            false += any(one.rank != 1 for one in found.ranks)
        assert false <= 7  # 5% of 60 is 3; more than 7 has a chance of 2%


class TestAgainstRest:
    def test_a_group_that_is_served_worse_is_found(self) -> None:
        values, clusters = skilled([0.8, 0.8])
        inside = clusters < 20
        values[0, inside] = 0
        found = against_rest(values, inside, clusters)
        assert found.difference[0] == pytest.approx(-values[0, ~inside].mean())
        assert found.high[0] < 0 and found.p[0] < 1e-6
        assert found.low[1] < 0 < found.high[1]

    def test_where_a_side_has_no_score_nothing_is_said(self) -> None:
        values, clusters = skilled([0.8])
        inside = clusters < 20
        values[0, inside] = np.nan
        found = against_rest(values, inside, clusters)
        assert np.isnan(found.difference[0]) and found.p[0] == 1
