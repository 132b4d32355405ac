"""`palate eval`: what is planted is found with its sign and about its size, and coins are not mistaken for taste."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from palate.audit import selftest
from palate.evaluation import Gain, evaluate, is_clear_gain
from palate.records import Ask, Benchmark, Rating, View
from truth.tables import SHAPES, demographics_only, posts_only, table, topics


class Habit:
    """Takes the longer or the shorter text, whichever the person took more often before; by age, where only that is
    known; and with nothing to go by neither."""

    name = "habit"
    fingerprint = "habit"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([self._habit(ask.view) * len(text) for text in ask.responses]) for ask in asks]

    @staticmethod
    def _habit(view: View) -> float:
        past = [part.judgement for part in view.parts if part.judgement]
        if past:
            return float(sum(1 if len(one.chosen) > len(one.rejected[0]) else -1 for one in past))
        ages = [part.fields["age"] for part in view.parts if part.fields]
        return {"old": 1.0, "young": -1.0}.get(str(ages[0]), 0.0) if ages else 0.0


def measured(held: Benchmark, out: Path, model: object, view: str) -> dict[str, Gain]:
    summary = evaluate(held, [model], ["none", view, "swapped"], retriever="recent", out=out)  # type: ignore[list-item]
    return {gain.over: gain for gain in summary.gains if gain.view == view}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_taste_in_past_choices_is_found_and_coins_are_not(shape: str, tmp_path: Path) -> None:
    found = measured(table(shape, consistency=0.7), tmp_path, Habit(), "judgements:8")
    # Whoever follows their taste in 70% of choices and tosses a coin in the others is foretold in 85% at best.
    assert 0.2 < found["none"].difference < 0.4
    assert 0.2 < found["swapped"].difference < 0.45
    assert all(map(is_clear_gain, found.values()))
    nothing = measured(table(shape, consistency=0.0), tmp_path, Habit(), "judgements:8")
    assert not all(map(is_clear_gain, nothing.values()))
    assert all(abs(gain.difference) < 0.1 for gain in nothing.values())


def test_a_taste_for_ones_own_topics_is_found_in_posts_and_coins_are_not(tmp_path: Path) -> None:
    found = measured(posts_only(0.7), tmp_path, "overlap", "posts:4")
    assert 0.25 < found["none"].difference < 0.4 and is_clear_gain(found["none"])
    assert 0.2 < found["swapped"].difference < 0.45 and is_clear_gain(found["swapped"])
    nothing = measured(posts_only(0.0), tmp_path, "overlap", "posts:4")
    assert not all(map(is_clear_gain, nothing.values()))


def test_what_a_group_likes_is_found_in_demographics_and_coins_are_not(tmp_path: Path) -> None:
    found = measured(demographics_only(0.7), tmp_path, Habit(), "demographics")
    assert 0.25 < found["none"].difference < 0.45 and is_clear_gain(found["none"])
    assert 0.25 < found["swapped"].difference < 0.45 and is_clear_gain(found["swapped"])
    nothing = measured(demographics_only(0.0), tmp_path, Habit(), "demographics")
    assert not all(map(is_clear_gain, nothing.values()))


def test_a_ranking_does_not_give_its_own_answer_away(tmp_path: Path) -> None:
    """Whoever ranks at random has no taste, though what they took once they took again."""
    gain = measured(table("rankings", consistency=0.0), tmp_path, "overlap", "judgements:8")["swapped"]
    assert abs(gain.difference) < 0.1 and not is_clear_gain(gain)


def test_what_everybody_likes_of_a_topic_is_not_taken_for_the_persons_taste(tmp_path: Path) -> None:
    found = measured(topics(), tmp_path, Habit(), "judgements:4")
    assert found["none"].difference > 0.1 and is_clear_gain(found["none"])
    assert abs(found["swapped"].difference) < 0.05 and not is_clear_gain(found["swapped"])


@pytest.mark.parametrize("shape", [*SHAPES, "posts", "demographics"])
def test_false_alarms_are_rare_and_large_effects_are_found_on_every_shape(shape: str) -> None:
    made = {"posts": posts_only, "demographics": demographics_only}
    held = made[shape](0.0) if shape in made else table(shape, 0.0)
    found = selftest(held, points=[30], tries=15, retriever="recent")
    for one in found.tried:
        if one.labels == "planted":
            assert one.called >= 14
            assert 10 < one.over_none < 32
        else:
            assert one.called <= 2, one
            assert abs(one.over_stranger) < 3
