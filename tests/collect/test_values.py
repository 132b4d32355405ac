"""The ten values: the plan of the published questionnaire, scored as published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_collection import collect

from palate.collect._records import SurveyAnswer
from palate.collect._values import PORTRAITS, SCALE, VALUES, is_portrait, score_values, values_of

PUBLISHED = {
    "conformity": {7, 16},
    "tradition": {9, 20},
    "benevolence": {12, 18},
    "universalism": {3, 8, 19},
    "self-direction": {1, 11},
    "stimulation": {6, 15},
    "hedonism": {10, 21},
    "achievement": {4, 13},
    "power": {2, 17},
    "security": {5, 14},
}
"""Items in each index, from Schwartz's instructions for the Human Values scale of the European Social Survey."""


def test_each_portrait_stands_for_the_value_that_was_published() -> None:
    ours = {value: {one.number for one in PORTRAITS if one.value == value} for value in VALUES}
    assert ours == PUBLISHED
    assert len(SCALE) == 6 and len({portrait.text for portrait in PORTRAITS}) == 21


def test_portraits_name_no_gender() -> None:
    words = {word.strip(".,;").lower() for portrait in PORTRAITS for word in portrait.text.split()}
    assert not words & {"he", "she", "him", "his", "her", "hers", "man", "woman"}


def test_a_score_is_the_mean_of_the_value_less_the_mean_of_everything() -> None:
    ratings = {number: 1 + number % 6 for number in range(1, 22)}
    scored = score_values(ratings)
    everything = sum(ratings.values()) / 21
    assert scored.scores["universalism"] == pytest.approx((ratings[3] + ratings[8] + ratings[19]) / 3 - everything)
    assert scored.scores["power"] == pytest.approx((ratings[2] + ratings[17]) / 2 - everything)


@given(st.lists(st.integers(1, 5), min_size=21, max_size=21))
def test_whoever_rates_everything_higher_has_the_same_values(ratings: list[int]) -> None:
    one = score_values(dict(enumerate(ratings, start=1)))
    other = score_values(dict(enumerate((rating + 1 for rating in ratings), start=1)))
    assert one.scores == pytest.approx(other.scores)
    assert len(one.strongest) <= 3 and all(one.scores[value] > 0 for value in one.strongest)


def test_too_few_answers_or_all_alike_are_not_scored() -> None:
    assert "6 of 21 portraits were skipped" in (score_values({n: 1 + n % 6 for n in range(1, 16)}).unscored or "")
    assert score_values({n: 1 + n % 6 for n in range(1, 17)}).unscored is None
    alike = score_values(dict.fromkeys(range(1, 22), 4))
    assert "same rating" in (alike.unscored or "") and alike.scores == {} and alike.strongest == ()
    assert score_values({}).answered == 0


def test_a_rating_that_is_not_on_the_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 6"):
        score_values({1: 7})


def test_the_latest_answer_of_a_survey_counts() -> None:
    def stated(number: int, value: int, date: str) -> SurveyAnswer:
        portrait = PORTRAITS[number - 1]
        assert is_portrait(portrait.id)
        return SurveyAnswer(id=date, participant="ann", task="s", question=portrait.id, value=value, date=date)

    answers = [stated(number, 1 + number % 6, "2026-03-01T10:00:00Z") for number in range(1, 22)]
    collected = collect(people=2, items=2, repeats=0, checks=0, survey=False)
    changed = type(collected)(
        **{name: getattr(collected, name) for name in collected.__struct_fields__ if name != "survey"},
        survey=(stated(10, 6, "2026-03-02T10:00:00Z"), stated(21, 6, "2026-03-02T10:00:01Z"), *answers),
    )
    assert values_of(changed)["ann"].means["hedonism"] == 6
