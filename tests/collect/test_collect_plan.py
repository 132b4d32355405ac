"""A plan's power is that of the test which an evaluation runs afterwards; and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import palate
from palate.collect._plan import Assumptions, Design, detectable, make_plan, people_needed, plan_table
from palate.records import PalateError
from palate.stats import (
    UNSEEN_PEOPLE,
    Crossed,
    Quantity,
    Resamples,
    cluster_totals,
    effective_items,
    paired_differences,
    ratio,
)


def found(design: Design, assumed: Assumptions, times: int = 150) -> float:
    """How often the test of an evaluation finds the smallest gain, on differences drawn as the plan assumes them.

    What one model is ahead by is a matter of the person and the item as much as the correlations say; the label is the
    one that the person would give again as often as self-agreement says.
    """
    planned, random = detectable(design, assumed), np.random.default_rng(1)
    people = np.repeat(np.arange(design.people), design.items)
    items = np.arange(len(people)) % planned.different_items
    reliable = (1 + np.sqrt(2 * assumed.self_agreement - 1)) / 2
    kept = 2 * reliable - 1
    clear = 0
    for _ in range(times):
        # effects of either sign and one size, so that no share leaves its range
        by_person = np.sqrt(assumed.differ * assumed.person_correlation) * random.choice([-1, 1], design.people)
        by_item = np.sqrt(assumed.differ * assumed.item_correlation) * random.choice([-1, 1], planned.different_items)
        # the correlations are those of answers as given, the gain is in what people want
        ahead = planned.smallest_gain + (by_person[people] + by_item[items]) / kept
        side = np.where(random.random(len(people)) < (1 + ahead / assumed.differ) / 2, 1, -1)
        differences = np.where(random.random(len(people)) < assumed.differ, side, 0)
        differences = np.where(random.random(len(people)) < reliable, differences, -differences)
        columns = np.stack([differences, np.ones(len(people))], axis=1)
        crossed = Crossed(cluster_totals(columns, items, planned.different_items), columns)
        shared = crossed if design.people_per_item > 1 else None
        totals = cluster_totals(columns, people, design.people)
        quantity = Quantity(totals, ratio, (-1.0, 1.0), shared)
        (result,) = paired_differences([quantity], Resamples(design.people, n_resamples=1_000))
        clear += result.p < 0.05
    return clear / times


@pytest.mark.parametrize(
    "design",
    [Design(people=60, items=20), Design(people=120, items=6), Design(people=80, items=20, people_per_item=20)],
    ids=["few with many", "many with few", "shared items"],
)
def test_the_smallest_gain_is_found_about_four_times_in_five(design: Design) -> None:
    assumed = Assumptions(person_correlation=0.03, item_correlation=0.02, self_agreement=0.9)
    assert 0.7 <= found(design, assumed) <= 0.9


def test_an_unreliable_crowd_has_to_be_larger() -> None:
    reliable = people_needed(0.05, 20, assumptions=Assumptions(self_agreement=1.0))
    usual = people_needed(0.05, 20, assumptions=Assumptions(self_agreement=0.8))
    assert reliable is not None and usual is not None
    assert usual / reliable == pytest.approx(1 / 0.6, rel=0.03)  # the gain shrinks by the root of 2 · 0.8 - 1


@given(st.integers(2, 300), st.integers(1, 60), st.integers(1, 10), st.floats(0, 0.5))
def test_more_of_anything_never_hurts(people: int, items: int, judges: int, correlation: float) -> None:
    assumed = Assumptions(person_correlation=correlation)

    def gain(people: int, items: int, judges: int) -> float:
        design = Design(people=people, items=items, repeats=0, people_per_item=judges)
        return detectable(design, assumed).smallest_gain

    assert gain(people + judges, items, 1) <= gain(people, items, 1)
    assert gain(people, items + 1, 1) <= gain(people, items, 1) + 1e-12
    assert gain(people, items, 1) <= gain(people, items, judges) + 1e-12


@given(st.floats(0.02, 0.3), st.integers(1, 80), st.integers(1, 8))
def test_the_people_needed_are_enough_and_one_fewer_are_not(gain: float, items: int, judges: int) -> None:
    people = people_needed(gain, items, people_per_item=judges)
    if people is None:
        return
    repeats = min(4, items)
    design = Design(people=people, items=items, repeats=repeats, people_per_item=judges)
    assert detectable(design).smallest_gain <= gain
    if people > judges:
        fewer = Design(people=people - 1, items=items, repeats=repeats, people_per_item=judges)
        assert detectable(fewer).smallest_gain > gain * (1 - 0.02)


def test_four_times_the_people_halve_the_gain() -> None:
    unseen = UNSEEN_PEOPLE  # which every collection needs beside
    once, four = (detectable(Design(people=people + unseen, items=20)).smallest_gain for people in (50, 200))
    assert once / four == pytest.approx(2)


def test_independent_answers_are_worth_their_number() -> None:
    assert effective_items([20] * 30, 0.0) == pytest.approx(600)
    assert effective_items([20] * 30, 0.0, [30] * 20, 1.0) == pytest.approx(20)


def test_a_plan_is_a_table_that_says_what_it_assumes() -> None:
    plan = make_plan(0.05, items=(10, 40))
    table = plan_table(plan)
    assert table.title == "To see a gain of 5.0 points"
    assert [row[1] for row in table.rows] == ["10", "40"]
    assert int(table.rows[0][0].replace(",", "")) > int(table.rows[1][0].replace(",", ""))
    assert "Assumed: two models that differ on 30%" in table.note
    given_people = make_plan(0.05, items=(20,), people=40)
    assert given_people.rows[0].design.people == 40 and given_people.rows[0].smallest_gain > 0.05


def test_the_command_prints_it_whole_at_80_columns() -> None:
    said = palate("collect", "plan", "--gain", "5", COLUMNS="80").stdout
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    assert "gain seen" in said and "put in what you measure." in " ".join(said.split())


def test_what_cannot_be_planned_is_said() -> None:
    with pytest.raises(PalateError, match="a gain of 5"):
        people_needed(5, 20)
    with pytest.raises(PalateError, match="repeats of 3 items"):
        detectable(Design(people=5, items=3, repeats=4))
    with pytest.raises(PalateError, match="self-agreement"):
        detectable(Design(people=5, items=5), Assumptions(self_agreement=0.4))
