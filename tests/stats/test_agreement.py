"""Agreement of predictors and outcomes: published figures, exact small cases, nulls and planted effects."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import stats

from palate.stats import Floats, Scores, agreements, by_family, compare_predictors, ratio
from palate.stats._agreement import _differ
from palate.stats._association import Spread, detectable
from palate.stats._coefficients import coefficients
from palate.stats._scores import measure


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of whatever other tests left to be collected
        yield


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(table: list[dict[str, str]], name: str) -> Scores:
    return Scores.published(name, [float(row[name] or "nan") for row in table])


def measured(name: str, true: Floats, users: int, noise: float, seed: int, people: str = "") -> Scores:
    """Each user sees each model with noise, and has a level of their own."""
    random = np.random.default_rng(seed)
    seen = true[:, None] + random.normal(0, noise, (len(true), users)) + random.normal(0, 1, users)
    return Scores(name, np.stack([seen, np.ones_like(seen)], axis=2), ratio, people)


def test_rewardbench_2_table_8(data_dir: Path) -> None:
    table = rows(data_dir / "published" / "rewardbench2_table8.csv")
    benchmark = column(table, "rbv2")
    for outcome, figures in (("bon", (0.915, 0.793, 0.657)), ("ppo", (0.717, -0.039, -0.119))):
        found = agreements([benchmark], [column(table, outcome)])[0]
        assert found.models == 17
        assert found.pearson and found.spearman and found.kendall
        values = found.pearson.value, found.spearman.value, found.kendall.value
        assert tuple(round(value, 3) for value in values) == figures
        assert found.pairs is found.brier is found.separability is None
        assert found.spearman.low is not None and found.spearman.high is not None
        assert found.spearman.low < found.spearman.value < found.spearman.high


def test_the_families_of_table_8_disagree(data_dir: Path) -> None:
    table = rows(data_dir / "published" / "rewardbench2_table8.csv")
    families = [row["group"] for row in table]
    for outcome, expected in (("bon", 1.0), ("ppo", -1.0)):
        found = by_family(column(table, "rbv2"), column(table, outcome), families)
        off_policy = {part.name: part for part in found.within}["off_policy"]
        assert off_policy.n == 5
        assert off_policy.spearman is not None
        assert off_policy.spearman.value == pytest.approx(expected)
        assert off_policy.spearman.p == pytest.approx(2 / 120)
        assert "on_policy_weak" not in {part.name for part in found.within}, "three models are too few"


def test_alpaca_eval_against_arena(data_dir: Path) -> None:
    table = rows(data_dir / "published" / "alpaca_eval_benchmarks.csv")
    found = agreements([column(table, "LC AlpacaEval 2.0")], [column(table, "Arena Elo\n[Feb 2, 2024]")])[0]
    assert found.models == 37
    assert found.spearman is not None
    assert round(found.spearman.value, 3) == 0.975
    assert found.spearman.p == pytest.approx(1 / 5_000)


@pytest.mark.parametrize(
    ("order", "rho", "p"), [((6, 4, 2, 1, 3, 5), 9 / 35, 0.6583), ((6, 4, 3, 1, 2, 5), 13 / 35, 0.4972)]
)
def test_six_models_say_little(order: tuple[int, ...], rho: float, p: float) -> None:
    found = agreements([Scores.published("x", order)], [Scores.published("y", [6, 5, 4, 3, 2, 1])])[0]
    assert found.spearman is not None and found.ndcg is not None and found.rbo is not None
    assert found.spearman.value == pytest.approx(rho)
    assert found.spearman.p == pytest.approx(p, abs=5e-5)
    assert round(found.ndcg.chance, 2) == 0.85, "the mean NDCG of a random order"
    assert found.spearman.chance == 0


def test_coefficients_are_those_of_scipy() -> None:
    random = np.random.default_rng(1)
    for decimals in (8, 0):  # without ties, and with many
        x, y = (np.round(random.normal(size=(5, 12)), decimals) for _ in range(2))
        found = coefficients(x, y)
        for place in range(len(x)):
            assert found["pearson"][place] == pytest.approx(stats.pearsonr(x[place], y[place])[0])
            assert found["spearman"][place] == pytest.approx(stats.spearmanr(x[place], y[place])[0])
            assert found["kendall"][place] == pytest.approx(stats.kendalltau(x[place], y[place])[0])
            if decimals:
                assert found["weighted_tau"][place] == pytest.approx(stats.weightedtau(x[place], y[place])[0])


def test_rank_biased_overlap_and_ndcg_by_hand() -> None:
    found = coefficients(np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0]))
    assert found["rbo"][0] == pytest.approx(0.1 * (0 + 0.9 + 0.81) + 0.729)
    gains = np.array([2, 3, 1]) / np.log2([2, 3, 4])
    ideal = np.array([3, 2, 1]) / np.log2([2, 3, 4])
    assert found["ndcg"][0] == pytest.approx(gains.sum() / ideal.sum())
    tied = coefficients(np.array([2.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0]))
    # Two share the first place: the overlap at depth 1 is one model of the three that the sides have there.
    assert tied["rbo"][0] == pytest.approx(0.1 * (2 / 3 + 0.9 + 0.81) + 0.729)
    either = [coefficients(np.array(x), np.array([2.0, 3.0, 1.0]))["ndcg"][0] for x in ([3.0, 2, 1], [2.0, 3, 1])]
    assert tied["ndcg"][0] == pytest.approx(np.mean(either))


def test_a_predictor_that_is_the_outcome_gets_one() -> None:
    outcome = measured("outcome", np.arange(12.0), 50, 1.0, seed=1, people="p")
    found = agreements([outcome], [outcome])[0]
    for name in ("pearson", "spearman", "kendall", "weighted_tau", "rbo", "ndcg"):
        assert getattr(found, name).value == pytest.approx(1), name
        assert getattr(found, name).high == pytest.approx(1), name
    assert found.pairs is not None and found.pairs.accuracy == 1 and found.pairs.n > 60
    assert found.brier is not None and found.brier < 0.01
    assert found.separability == found.pairs.n / 66


def test_permuted_outcomes_give_uniform_p() -> None:
    random = np.random.default_rng(2)
    for models in (6, 12):
        zoo = [Scores.published(f"{place}", random.normal(size=models)) for place in range(20)]
        found = agreements(zoo[:10], zoo[10:])
        for name in ("pearson", "weighted_tau", "rbo", "ndcg"):
            p_values = [getattr(one, name).p for one in found]
            assert stats.kstest(p_values, "uniform").pvalue > 0.001, name
        assert sum(one.spearman.q < 0.05 for one in found if one.spearman) <= 2


def test_a_planted_agreement_is_found_among_nulls() -> None:
    random = np.random.default_rng(3)
    true = random.normal(size=24)
    outcome = measured("outcome", true, 60, 2.0, seed=4)
    predictors = [measured(f"null {place}", random.normal(size=24), 60, 2.0, seed=5 + place) for place in range(5)]
    planted = measured("planted", 0.8 * true + 0.6 * random.normal(size=24), 60, 2.0, seed=11)
    found = {one.predictor: one for one in agreements([*predictors, planted], [outcome])}
    assert found["planted"].spearman is not None
    assert found["planted"].spearman.q < 0.01
    assert found["planted"].pairs is not None and (found["planted"].pairs.accuracy or 0) > 0.7
    assert sum(one.spearman.q < 0.05 for one in found.values() if one.spearman) == 1


def test_constants_give_none_and_missing_models_are_left_out() -> None:
    values = [1.0, 2, 3, 4, np.nan, 5]
    same = agreements([Scores.published("same", [1.0] * 6)], [Scores.published("y", values)])[0]
    assert same.models == 5
    assert same.pearson is same.spearman is same.ndcg is None
    none = agreements([Scores.published("none", [np.nan] * 6)], [Scores.published("y", values)])[0]
    assert none.models == 0 and none.kendall is None and none.detectable.spearman is None
    everybody_alike = Scores("alike", np.ones((6, 8, 2)), ratio)
    found = agreements([everybody_alike], [everybody_alike])[0]
    assert found.spearman is None and found.separability == 0
    assert found.pairs is not None and found.pairs.n == 0 and found.pairs.accuracy is None
    assert compare_predictors([everybody_alike] * 2, [everybody_alike])[0].p is None
    parts = by_family(everybody_alike, everybody_alike, ["a"] * 6)
    assert parts.within[0].spearman is None and parts.rmse is None
    first = Scores("x", np.array([[[1.0, 2], [1, 1]], [[0, 0], [0, 0]], [[0, 0], [1, 4]]]), ratio)
    assert first.values.tolist() == pytest.approx([2 / 3, np.nan, 0.25], nan_ok=True)


def test_three_models_cannot_be_significant() -> None:
    found = agreements([Scores.published("x", [1, 2, 3])], [Scores.published("y", [1, 2, 3])])[0]
    assert found.spearman is not None
    assert found.spearman.value == 1 and found.spearman.p == pytest.approx(1 / 3)
    assert found.spearman.low is None and found.detectable.spearman is None


def test_what_can_be_detected() -> None:
    """Against Fisher's transformation, and less with fewer models."""
    for n in (10, 17, 40):
        expected = np.tanh((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / np.sqrt(n - 3))
        assert detectable("pearson", n) == pytest.approx(expected, abs=0.03)
        assert (detectable("spearman", n) or 0) > expected - 0.03
    assert (detectable("spearman", 6) or 0) > 0.9


def test_noise_of_users_is_taken_out() -> None:
    """True correlation .9, a third of the variance noise: values are too low by a third, and limits are not."""
    random = np.random.default_rng(6)
    held, plain = [], []
    for seed in range(60):
        x = random.normal(size=30)
        y = 0.9 * x + np.sqrt(1 - 0.81) * random.normal(size=30)
        noise = np.sqrt(50 * 0.5)
        first, second = measure(
            [measured("x", x, 50, noise, 2 * seed), measured("y", y, 50, noise, 2 * seed + 1)], seed
        )
        value = float(coefficients(first.values, second.values)["pearson"][0])
        low, high, _ = Spread.of(first, second, None, by_rank=False).limits("pearson", value, 30)
        plain.append(value)
        held.append(low is None or high is None or low <= 0.9 <= high)
    assert np.mean(plain) < 0.68
    assert np.mean(held) > 0.85


def test_families_widen_the_interval() -> None:
    """Twenty copies of four models are four models."""
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    random = np.random.default_rng(7)
    many = [Scores.published(name, np.repeat(v, 5) + random.normal(0, 0.05, 20)) for name, v in (("x", x), ("y", y))]
    alone = agreements(many[:1], many[1:])[0].spearman
    told = agreements(many[:1], many[1:], families=[str(place // 5) for place in range(20)])[0].spearman
    assert alone is not None and told is not None and alone.low is not None and told.low is not None
    assert alone.p < 0.01 < 0.05 < told.p
    assert told.low < 0 < alone.low


def test_the_better_predictor_is_found_and_equal_ones_are_not() -> None:
    random = np.random.default_rng(8)
    found, alarms = [], []
    for seed in range(60):
        true = random.normal(size=30)
        outcome = Scores.published("outcome", true)
        good, bad, worse = (
            Scores.published(f"{share}", share * true + np.sqrt(1 - share**2) * random.normal(size=30))
            for share in (0.9, 0.3, 0.3)
        )
        tests = {(one.first, one.second): one for one in compare_predictors([good, bad, worse], [outcome], seed=seed)}
        planted = tests["0.9", "0.3"]
        assert planted.p is not None and planted.difference is not None and planted.low is not None
        assert planted.low <= planted.difference <= (planted.high or 0)
        found.append(planted.p < 0.05)
        alarms.append((tests["0.3", "0.3"].p or 0) < 0.05)
    assert np.mean(found) > 0.85
    assert np.mean(alarms) < 0.17


def test_a_predictor_that_is_better_only_once_its_noise_is_taken_off_is_not_called_better() -> None:
    """What is seen says the opposite, and far enough for a low p if it were not asked which way."""
    random = np.random.default_rng(5)
    true = np.sort(random.normal(size=20))

    def measured(name: str, values: Floats, noise: float, seed: int) -> Scores:
        drawn = values[:, None] + np.random.default_rng(seed).normal(size=(20, 60)) * noise
        return Scores(name, np.stack([drawn, np.ones_like(drawn)], -1), ratio, people="sim")

    noisy, clean = measured("noisy", true, 6, 55), measured("clean", true + 0.35 * random.normal(size=20), 0.1, 95)
    outcome = measured("outcome", true, 0.3, 15)
    seen = [float(stats.spearmanr(one.values, outcome.values)[0]) for one in (noisy, clean)]
    [found] = compare_predictors([noisy, clean], [outcome])
    assert found.difference is not None and found.difference > 0 > seen[0] - seen[1]
    assert found.p == found.q == 1


def test_a_predictor_is_no_better_than_itself() -> None:
    scores = [Scores.published(name, [1, 5, 2, 8, 3, 9, 4]) for name in ("a", "b")]
    found = compare_predictors(scores, [Scores.published("y", [1, 2, 3, 4, 5, 6, 7])])[0]
    assert found.difference == 0 and found.p == found.q == 1
    assert found.low is not None and found.high is not None and found.low <= 0 <= found.high


def test_by_family_tells_levels_from_slopes() -> None:
    """Families differ on both sides, and within them the order is reversed."""
    family = np.repeat(np.arange(5), 6)
    step = np.tile(np.arange(6.0), 5)
    random = np.random.default_rng(9)
    x = Scores.published("x", 20 * family + step + random.normal(0, 0.1, 30))
    y = Scores.published("y", 20 * family - step + random.normal(0, 0.1, 30))
    found = by_family(x, y, [f"family {one}" for one in family])
    assert found.pooled.spearman and found.centred.spearman and found.between.spearman
    assert found.pooled.spearman.value > 0.9 and found.pooled.spearman.q < 0.01
    assert found.centred.spearman.value < -0.9 and found.centred.spearman.q < 0.01
    assert found.between.n == 5 and found.between.spearman.value == pytest.approx(1)
    assert len(found.within) == 5 and all(part.spearman and part.spearman.value < -0.9 for part in found.within)
    assert found.rmse is not None and found.rmse_of_mean is not None and found.rmse < 0.2 * found.rmse_of_mean


def test_the_same_people_are_drawn_together() -> None:
    true = np.arange(8.0)
    together = [measured("x", true, 40, 3.0, seed=1, people="p"), measured("x", true, 40, 3.0, seed=1, people="p")]
    apart = [measured("x", true, 40, 3.0, seed=1), measured("x", true, 40, 3.0, seed=1)]
    first, second = measure(together, 0)
    assert first.draws is not None and second.draws is not None
    assert np.array_equal(first.draws, second.draws)
    assert first.shared_noise(second) == pytest.approx(1)
    assert measure(apart, 0)[0].shared_noise(measure(apart, 0)[1]) == 0
    with pytest.raises(ValueError, match="39 clusters"):
        measure([together[0], measured("y", true, 39, 3.0, seed=1, people="p")], 0)


def test_people_who_were_not_asked_do_not_count() -> None:
    """Of sixty people four were asked, and found no difference between six models: t has three degrees of freedom."""
    alarms = []
    for seed in range(100):
        asked = measured("y", np.zeros(6), 4, 1.0, seed)
        totals = np.concatenate([asked.totals, np.zeros((6, 56, 2))], axis=1)
        [found] = measure([Scores("y", totals, ratio, people="p")], seed)
        assert found.users == 4
        alarms.append(_differ(found.apart[0], found.users).any())
    assert np.mean(alarms) < 0.1


def test_the_same_seed_gives_the_same_json() -> None:
    x, y = (measured(name, np.arange(9.0), 20, 5.0, seed) for seed, name in enumerate("xy"))
    first, again = (msgspec.json.encode(agreements([x], [y], seed=3)) for _ in range(2))
    assert first == again


def test_models_of_one_family_say_nothing_about_others() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    [found] = agreements([Scores.published("A", values)], [Scores.published("B", values)], families=["x"] * 6)
    assert found.spearman is not None and found.spearman.value == 1
    assert found.spearman.low is None and found.spearman.p == 1
