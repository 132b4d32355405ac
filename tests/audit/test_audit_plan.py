"""How many people to ask: the plan holds when it is simulated."""

from __future__ import annotations

import json

import pytest

import command
from palate.audit import label_error, plan_collection, simulate_power
from palate.records import PalateError


@pytest.mark.parametrize(("items", "repeats"), [(20, 1), (40, 3)])
def test_the_planned_power_is_what_a_simulation_finds(items: int, repeats: int) -> None:
    plan = plan_collection(0.06, items=[items], repeats=[repeats], contradiction=0.2)
    [design] = plan.designs
    assert 0.68 <= simulate_power(plan, design) <= 0.9
    half = type(design)(
        people=design.people // 4,
        items=items,
        repeats=repeats,
        judgements=design.judgements // 4,
        seen_gain=design.seen_gain,
    )
    assert simulate_power(plan, half) < 0.5


@pytest.mark.parametrize(("gain", "items", "repeats"), [(0.2, 80, 3), (0.2, 20, 3), (0.15, 40, 3), (0.1, 80, 3)])
def test_the_plan_holds_where_few_people_are_enough(gain: float, items: int, repeats: int) -> None:
    """Of five people no test is below .05, and of nine it finds less than the normal approximation says."""
    plan = plan_collection(gain, items=[items], repeats=[repeats])
    [design] = plan.designs
    assert design.people < 25
    assert 0.7 <= simulate_power(plan, design, tries=120) <= 0.97


def test_more_people_are_needed_for_less() -> None:
    def people(gain: float, **more: float) -> int:
        return plan_collection(gain, items=[20], repeats=[1], **more).designs[0].people

    assert people(0.02) > people(0.05) > people(0.1)
    assert people(0.05, contradiction=0.3) > people(0.05, contradiction=0.0)
    assert people(0.05, correlation=0.1) > people(0.05, correlation=0.0)


def test_repeats_make_labels_right() -> None:
    assert label_error(0.0, 1) == 0.0
    assert label_error(0.3, 5) < label_error(0.3, 3) < label_error(0.3, 1)
    assert label_error(0.3, 2) == pytest.approx(label_error(0.3, 1))  # two who differ settle nothing


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gain": 0.0}, "gain lies between 0 and 1"),
        ({"gain": 0.4}, "cannot be had by models that differ on 0.3"),
        ({"gain": 0.05, "contradiction": 0.5}, "less than 0.5"),
        ({"gain": 0.05, "items": [0]}, "items are counted from 1"),
        ({"gain": 0.05, "correlation": 1.0}, "less than 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(PalateError, match=said):
        plan_collection(**given)  # type: ignore[arg-type]


def test_the_command() -> None:
    done = command.palate("audit", "plan", "--gain", "5", "--items", "20", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "137" in done.stdout and "2,740" in done.stdout
    found = json.loads(command.palate("audit", "plan", "--json").stdout)
    assert found["designs"][0]["items"] == 10


@pytest.mark.parametrize("items", [10, 20, 40])
def test_the_plan_of_a_collection_is_the_same_plan(items: int) -> None:
    from palate.collect import people_needed

    [design] = plan_collection(0.05, items=[items], repeats=[1]).designs
    assert people_needed(0.05, items, repeats=0) == design.people
