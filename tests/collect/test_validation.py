"""Blind validation: equal general quality, better personal fit. Size and power by simulation, and the words."""

from __future__ import annotations

import numpy as np
import pytest

from palate.collect._records import Answer, Collected, Item, Participant
from palate.collect._validation import DIMENSIONS, GENERAL, Validation, validate
from palate.records import PalateError


def graded(
    random: np.random.Generator,
    differences: dict[str, float],
    *,
    raters: int = 8,
    items: int = 24,
    overlap: float = 0.5,
    between: float = 0.25,
    between_items: float = 0.25,
) -> Collected:
    """Raters and items with effects of their own; the mean difference of each dimension is as planted, exactly."""
    names = [f"rater-{number}" for number in range(raters)]
    things = [
        Item(id=f"item-{number}", prompt="?", responses=("one", "other"), preferred=number % 2, user_id="u")
        for number in range(items)
    ]
    effects = {
        name: (random.normal(0, between, raters), random.normal(0, between_items, items)) for name in differences
    }
    answers = []
    for row, name in enumerate(names):
        for column, item in enumerate(things):
            if random.random() > overlap and (row + column) % raters:
                continue
            ratings = {}
            for dimension in differences:
                by_rater, by_item = effects[dimension]
                wanted = differences[dimension] + by_rater[row] + by_item[column]
                # rounded at random, so that the mean stays what it is; within what two grades can differ by
                whole = int(np.clip(np.floor(wanted) + (random.random() < wanted - np.floor(wanted)), -2, 2))
                grades = [3, 3]
                grades[item.preferred or 0] += whole
                ratings[dimension] = tuple(grades)
            answers.append(
                Answer(
                    id=f"{name}-{item.id}", participant=name, task="validate", item=item.id, shown=(0, 1),
                    ratings=ratings, date="2026-03-01T10:00:00Z", sequence=column,
                )
            )  # fmt: skip
    return Collected(
        project="check", title="Check", version="1", licence="CC0-1.0", items=tuple(things), answers=tuple(answers),
        participants=tuple(Participant(id=name) for name in names),
    )  # fmt: skip


PERFECT = {"factuality": 0.0, "relevance": 0.0, "helpfulness": 0.0, "personal fit": 1.0}


def verdicts(result: Validation) -> dict[str, str]:
    return {one.dimension: one.verdict for one in result.dimensions}


def simulate(differences: dict[str, float], times: int = 60, **sizes: float) -> dict[str, list[str]]:
    random = np.random.default_rng(3)
    seen: dict[str, list[str]] = {name: [] for name in DIMENSIONS}
    for _ in range(times):
        for name, verdict in verdicts(validate(graded(random, differences, **sizes))).items():  # type: ignore[arg-type]
            seen[name].append(verdict)
    return seen


def test_responses_that_differ_by_the_margin_are_rarely_called_equal() -> None:
    """The size of the equivalence test, at its worst case: a true difference of exactly the margin."""
    seen = simulate(dict.fromkeys(GENERAL, 0.5), times=40)
    called = [verdict for name in GENERAL for verdict in seen[name]]
    assert called.count("equal") <= 8  # of 120; 2.5% are 3
    assert called.count("not equal") <= 8


def test_a_response_that_fits_no_better_is_rarely_called_better() -> None:
    seen = simulate({"personal fit": 0.0}, times=120)["personal fit"]
    assert seen.count("better") <= 8  # of 120; 2.5% are 3
    assert seen.count("not better") <= 8


def test_few_items_are_few_however_many_rate_them() -> None:
    """Six items that differ by themselves, graded by twenty people each: the next six would look otherwise."""
    sizes = {"raters": 20, "items": 6, "overlap": 1.0, "between_items": 0.5}
    seen = simulate({"personal fit": 0.0}, times=60, **sizes)["personal fit"]
    assert seen.count("better") + seen.count("not better") <= 8  # of 60; 5% are 3, and raters alone would give 25


def test_a_good_benchmark_usually_passes() -> None:
    """Power: with 16 raters and 32 items, equal quality is shown and better fit is found."""
    seen = simulate(PERFECT, times=15, raters=16, items=32)
    assert min(seen[name].count("equal") for name in GENERAL) >= 13
    assert seen["personal fit"].count("better") == 15


def test_a_benchmark_whose_preferred_response_is_simply_better_fails() -> None:
    random = np.random.default_rng(0)
    result = validate(graded(random, PERFECT | {"helpfulness": 1.2}, overlap=1.0))
    assert result.passed is False
    assert "the responses differ in helpfulness" in result.sentence
    assert len(result.review) > 12


def test_a_benchmark_without_personal_fit_fails() -> None:
    result = validate(graded(np.random.default_rng(1), PERFECT | {"personal fit": -0.8}, overlap=1.0))
    assert result.passed is False and "fits no better" in result.sentence
    (fit,) = (one for one in result.dimensions if one.dimension == "personal fit")
    assert fit.verdict == "not better" and fit.higher < 0.3


def test_the_verdict_is_in_plain_sentences() -> None:
    result = validate(graded(np.random.default_rng(2), PERFECT, raters=10, items=40, overlap=1.0))
    assert result.passed is True
    assert result.sentence.startswith("The benchmark measures personal fit")
    first, *_, last = result.dimensions
    assert first.sentence.startswith("Factuality is equal within 0.5: the preferred response differs by ")
    assert last.sentence.startswith("Personal fit: the preferred response is better, by +")
    assert last.agreement.value is not None and last.raters == 10 and last.items == 40


def test_one_rater_leaves_everything_open() -> None:
    result = validate(graded(np.random.default_rng(2), PERFECT, raters=1, overlap=1.0))
    assert result.passed is None and set(verdicts(result).values()) == {"open"}
    assert "an interval needs two raters" in result.dimensions[0].sentence
    assert result.sentence.endswith("factuality, relevance, helpfulness, personal fit are open.")


def test_the_order_of_responses_in_a_file_changes_nothing() -> None:
    collected = graded(np.random.default_rng(4), PERFECT)
    turned = Collected(
        **{name: getattr(collected, name) for name in collected.__struct_fields__ if name not in ("items", "answers")},
        items=tuple(
            Item(id=i.id, prompt="?", responses=i.responses[::-1], preferred=1 - (i.preferred or 0))
            for i in collected.items
        ),
        answers=tuple(
            Answer(
                id=a.id, participant=a.participant, task=a.task, item=a.item, shown=(1, 0), date=a.date,
                sequence=a.sequence, ratings={name: grades[::-1] for name, grades in a.ratings.items()},
            )
            for a in collected.answers
        ),
    )  # fmt: skip
    assert [one.difference for one in validate(turned).dimensions] == [
        one.difference for one in validate(collected).dimensions
    ]


def test_nothing_to_validate_is_said() -> None:
    collected = graded(np.random.default_rng(0), PERFECT)
    empty = Collected(
        **{name: getattr(collected, name) for name in collected.__struct_fields__ if name != "answers"}, answers=()
    )
    with pytest.raises(PalateError, match="no grades of items that name their preferred response"):
        validate(empty)
    with pytest.raises(PalateError, match="margin 7"):
        validate(collected, margin=7)
