"""Honest people are left alone at the rate that is promised, and those who cheat are found, each for their reason."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from simulated_collection import collect

from palate.collect._quality import LEVEL, AnnotatorQuality, measure_quality, upper_tail
from palate.collect._records import Collected


def quality(collected: Collected) -> dict[str, AnnotatorQuality]:
    return {person.participant: person for person in measure_quality(collected)}


def test_honest_people_are_rarely_flagged() -> None:
    """Nobody cheats in sixty collections. With the false discovery rate held, at most 5% of these have any flag."""
    flagged = 0
    for draw in range(60):
        people = measure_quality(collect(people=10, items=16, repeats=6, draw=draw))
        flagged += any(person.flags for person in people)
    assert flagged <= 7  # expected 3 at the level; more than 7 has a chance of about 1 in 100


@pytest.mark.parametrize(
    ("plant", "reason"), [("first", "position"), ("hasty", "speed"), ("paste", "pasted"), ("careless", "checks")]
)
def test_a_planted_annotator_is_found_for_the_right_reason(plant: str, reason: str) -> None:
    found = 0
    for draw in range(10):
        people = quality(collect(people=12, items=24, checks=4, draw=draw, plants={3: plant}))
        found += reason in {flag.reason for flag in people["sim-0-003"].flags}
    assert found >= 9


def test_whoever_tosses_coins_contradicts_themselves() -> None:
    people = quality(collect(people=14, items=40, repeats=24, noise=0.1, plants={3: "coin"}))
    assert "repeats" in {flag.reason for flag in people["sim-0-003"].flags}
    assert people["sim-0-003"].contradictions >= 8


def test_flagged_people_come_first_and_are_all_still_there() -> None:
    people = measure_quality(collect(people=12, items=24, plants={5: "first", 7: "hasty"}))
    assert len(people) == 12
    assert {person.participant for person in people[:2]} == {"sim-0-005", "sim-0-007"}


def test_several_who_cheat_do_not_hide_each_other() -> None:
    plants = {1: "hasty", 4: "hasty", 8: "hasty", 10: "first"}
    people = quality(collect(people=14, items=24, plants=plants))
    flagged = {int(name[-3:]) for name, person in people.items() if person.flags}
    assert flagged == set(plants)


def test_a_reader_by_length_has_a_habit_and_no_fault() -> None:
    people = quality(collect(people=10, items=30, plants={2: "longest"}))
    person = people["sim-0-002"]
    assert person.longest is not None and person.longest.share == 1 and person.longest.low > 0.8
    assert not person.flags
    others = [one.longest for name, one in people.items() if name != "sim-0-002"]
    assert sum(habit is not None and habit.low <= 0.5 <= habit.high for habit in others) >= 3


def test_a_habit_of_position_is_measured_against_chance() -> None:
    people = quality(collect(people=10, items=40))
    inside = [one.first is not None and one.first.low <= 0.5 <= one.first.high for one in people.values()]
    assert sum(inside) >= 8


def test_a_weak_habit_is_no_straight_line() -> None:
    """70% of 100 choices at the first place is far from chance, and still somebody who reads."""
    collected = collect(people=10, items=100, repeats=0)
    mine = [a for a in collected.answers if a.participant == "sim-0-000" and not a.item.startswith("check")]
    changed = {
        answer.id: msgspec.structs.replace(answer, choice=answer.shown.index(0 if place % 20 < 14 else 1), tie=False)
        for place, answer in enumerate(mine)
    }
    answers = tuple(changed.get(answer.id, answer) for answer in collected.answers)
    person = quality(msgspec.structs.replace(collected, answers=answers))["sim-0-000"]
    assert person.first is not None and person.first.low > 0.5
    assert "position" not in {flag.reason for flag in person.flags}


def test_one_reason_for_everything_is_noticed_though_typed() -> None:
    collected = collect(people=8, items=10)
    answers = tuple(
        msgspec.structs.replace(answer, reason="This one is simply the better answer.")
        if answer.participant == "sim-0-001"
        else answer
        for answer in collected.answers
    )
    person = quality(msgspec.structs.replace(collected, answers=answers))["sim-0-001"]
    assert [flag.reason for flag in person.flags] == ["pasted"]
    assert "one and the same reason" in person.flags[0].sentence


def test_the_exact_tail_is_that_of_enumeration() -> None:
    chances = [0.5, 1 / 3, 0.5, 0.25]
    outcomes = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    probability = np.prod(np.where(outcomes, chances, 1 - np.array(chances)), axis=1)
    for hits in range(5):
        assert upper_tail(hits, chances) == pytest.approx(probability[outcomes.sum(axis=1) >= hits].sum())


def test_flags_carry_the_false_discovery_rate_that_they_were_held_to() -> None:
    person = quality(collect(people=12, items=24, plants={5: "first"}))["sim-0-005"]
    assert all(flag.q is not None and flag.q <= LEVEL for flag in person.flags if flag.reason == "position")
    assert "shown first in 100%" in " ".join(flag.sentence for flag in person.flags)


def test_nobody_answered_yet() -> None:
    assert measure_quality(msgspec.structs.replace(collect(people=2, items=2, repeats=1), answers=())) == []
