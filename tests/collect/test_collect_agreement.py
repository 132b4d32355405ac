"""Alpha and kappa against published examples and their own laws; intervals that hold the truth as often as they say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from simulated_collection import collect

from palate.collect._agreement import (
    alpha_with_interval,
    cohen_kappa,
    kappa_with_interval,
    krippendorff_alpha,
    measure_agreement,
)

X = np.nan
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, X, X, X],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, X, 3],
        [X, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, X],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, X],
    ]
)
"""Krippendorff (2011), Computing Krippendorff's alpha-reliability, example C: four observers, twelve units."""
TABLES = arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(2, 8)), elements=st.sampled_from([0.0, 1, 2, X]))


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(level: str, published: float) -> None:
    assert krippendorff_alpha(KRIPPENDORFF, level) == pytest.approx(published, abs=0.0005)  # type: ignore[arg-type]


def test_kappa_of_the_textbook_table() -> None:
    """Two readers of fifty proposals: 20 times both yes, 15 both no, 5 and 10 divided. Kappa is .40."""
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30))
def test_kappa_is_that_of_another_implementation(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    first, second = zip(*pairs, strict=True)
    ours = cohen_kappa(first, second)
    if ours is None:
        assert set(first) == set(second) and len(set(first)) == 1
    else:
        assert ours == pytest.approx(metrics.cohen_kappa_score(first, second))


def by_pairs(table: np.ndarray) -> float | None:
    """Nominal alpha from its definition, pair by pair."""
    units = [column[~np.isnan(column)] for column in table.T]
    units = [unit for unit in units if len(unit) > 1]
    pooled = np.concatenate(units) if units else np.array([])
    n = len(pooled)
    within = sum((unit[:, None] != unit[None, :]).sum() / (len(unit) - 1) for unit in units)
    between = (pooled[:, None] != pooled[None, :]).sum()
    return 1 - (n - 1) * within / between if between else None


@given(TABLES)
def test_alpha_is_its_definition(table: np.ndarray) -> None:
    ours, definition = krippendorff_alpha(table), by_pairs(table)
    assert (ours is None) == (definition is None)
    if ours is not None:
        assert ours == pytest.approx(definition)


@given(TABLES, st.randoms(use_true_random=False))
def test_alpha_does_not_depend_on_names_or_order(table: np.ndarray, chance: object) -> None:
    shuffled = np.random.default_rng(chance.randrange(100)).permutation(table)  # type: ignore[attr-defined]
    renamed = np.where(np.isnan(shuffled), X, 2 - shuffled)
    before, after = krippendorff_alpha(table), krippendorff_alpha(renamed)
    assert before == pytest.approx(after) if before is not None else after is None
    before, after = krippendorff_alpha(table, "ordinal"), krippendorff_alpha(renamed, "ordinal")
    assert before == pytest.approx(after) if before is not None else after is None


@given(TABLES)
def test_an_item_with_one_answer_changes_nothing(table: np.ndarray) -> None:
    alone = np.full((len(table), 1), X)
    alone[0] = 1
    assert krippendorff_alpha(np.hstack([table, alone])) == krippendorff_alpha(table)


@pytest.mark.parametrize("measure", [lambda table: alpha_with_interval(table, "nominal"), kappa_with_interval])
def test_an_interval_holds_the_truth_about_as_often_as_it_says(measure: object) -> None:
    """People who see the true answer with a chance of their own: alpha over new people is known by simulation."""
    random = np.random.default_rng(5)

    def draw(people: int, items: int) -> np.ndarray:
        truth = random.integers(2, size=items)
        careful = random.beta(4, 2, size=people)
        seen = np.where(
            random.random((people, items)) < careful[:, None], truth, random.integers(2, size=(people, items))
        )
        table = seen.astype(float)
        table[random.random(table.shape) < 0.4] = X
        return table

    truth = measure(draw(300, 600)).value  # type: ignore[operator]
    held = 0
    for _ in range(60):
        estimate = measure(draw(15, 60))  # type: ignore[operator]
        held += estimate.low <= truth <= estimate.high
    assert held >= 52  # 95% of 60 is 57; fewer than 52 has a chance below 1 in 100


def test_people_who_want_different_things_disagree_and_agree_with_themselves() -> None:
    """Couples of simulated people have opposite tastes, so that over everybody agreement is that of chance."""
    summary = measure_agreement(collect(people=16, items=40, repeats=10, noise=0.1))
    assert summary.alpha.value is not None and abs(summary.alpha.value) < 0.1
    assert summary.self_agreement.value is not None and summary.self_agreement.value > 0.8
    assert summary.self_agreement.answers == 160
    assert summary.alpha_strength.value is None and summary.alpha_strength.note


def test_attention_checks_have_no_part_in_agreement() -> None:
    with_checks = measure_agreement(collect(people=6, items=20, checks=6))
    assert with_checks.alpha.items == 20


def test_a_file_that_puts_the_better_response_first_does_not_hide_agreement() -> None:
    """Everybody takes the first response of the file. By its number that would be one category, and no agreement."""
    collected = collect(people=5, items=20, repeats=0, checks=0)
    answers = tuple(msgspec.structs.replace(answer, choice=0, tie=False) for answer in collected.answers)
    summary = measure_agreement(msgspec.structs.replace(collected, answers=answers))
    assert summary.alpha.value == summary.kappa.value == 1.0


def test_strength_makes_an_ordinal_scale() -> None:
    collected = collect(people=8, items=30, repeats=0, checks=0, noise=0.1)
    answers = tuple(msgspec.structs.replace(answer, strength=1 + answer.sequence % 3) for answer in collected.answers)
    strengths = measure_agreement(msgspec.structs.replace(collected, answers=answers)).alpha_strength
    assert strengths.value is not None and strengths.people == 8 and strengths.answers == 240
    same = tuple(msgspec.structs.replace(answer, choice=0, strength=2) for answer in answers)
    assert measure_agreement(msgspec.structs.replace(collected, answers=same)).alpha_strength.value == 1.0


def test_coins_agree_with_themselves_half_the_time() -> None:
    plants = dict.fromkeys(range(20), "coin")
    summary = measure_agreement(collect(people=20, items=30, repeats=20, plants=plants))
    low, high = summary.self_agreement.low, summary.self_agreement.high
    assert low is not None and high is not None and low < 0.5 < high
    assert summary.kappa.low is not None and summary.kappa.low < 0 < (summary.kappa.high or 0)


def test_too_little_data_is_said() -> None:
    alone = measure_agreement(collect(people=1, items=5, repeats=0, checks=0))
    assert alone.alpha.value is None and "two people" in alone.alpha.note
    assert alone.self_agreement.value is None and "twice" in alone.self_agreement.note


def test_two_people_give_no_interval_of_self_agreement() -> None:
    """Both repeat themselves equally often, and resampling the two would claim to know it exactly."""
    few = measure_agreement(collect(people=2, items=8, repeats=4)).self_agreement
    assert few.value is not None and (few.low, few.high) == (None, None) and "too few people" in few.note
    six = collect(people=6, items=8, repeats=4)
    alike = tuple(msgspec.structs.replace(answer, choice=0, tie=False) for answer in six.answers)
    same = measure_agreement(msgspec.structs.replace(six, answers=alike)).self_agreement
    assert same.value == 1.0 and same.low is not None and same.low < 0.9
