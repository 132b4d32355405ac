"""Does the reward model agree with the critic on what a policy writes? Against shares counted by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from palate.downstream.ppo._results import Change
from palate.downstream.ppo._run import ControlRating, ControlTexts, HeldOutLine
from palate.downstream.ppo._summary import _agreements, _control_agreements, _control_scores, _mean, _own_mean, findings
from palate.records import Grade, Rating

NO_GRADE = Grade(unscored="empty")


def line(rewards: tuple[float, ...] | None, scores: tuple[float | None, ...]) -> HeldOutLine:
    rating = Rating(unscored="nothing to say") if rewards is None else Rating(rewards)
    grades = tuple(NO_GRADE if score is None else Grade(score) for score in scores)
    return HeldOutLine(
        item="i",
        policy_view="none",
        view="none",
        texts=("text",) * len(scores),
        tokens=(1,) * 6,
        rating=rating,
        grades=grades,
    )


@pytest.mark.parametrize(
    ("rewards", "scores", "shares"),
    [
        # All three pairs alike; one of three alike, the other two the other way round.
        ((1, 2, 3, 1, 2, 3), (5, 6, 7, 7, 5, 6), (1, 1 / 3)),
        # A tie of rewards is half; a tie of grades is no pair.
        ((1, 1, 0, 3, 2, 1), (2, 1, 1, 0, 0, 0), (3 / 4, np.nan)),
        # A text without a grade is in no pair.
        ((1, 2, 9, 5, 6, 7), (1, 2, None, None, None, 3), (1, np.nan)),
        (None, (1, 2, 3, 4, 5, 6), (np.nan, np.nan)),
    ],
)
def test_pairs_that_the_critic_tells_apart_are_counted(
    rewards: tuple[float, ...] | None, scores: tuple[float | None, ...], shares: tuple[float, float]
) -> None:
    assert _agreements([line(rewards, scores)])[0] == pytest.approx(shares, nan_ok=True)


def test_controls_are_read_view_by_view_and_strangers_averaged() -> None:
    def rated(view: str, draw: int, *scores: float) -> ControlRating:
        return ControlRating(view=view, draw=draw, rating=Rating((0.0, 0.0, 0.0, *scores)))

    own = line((0, 0, 0, 1, 2, 3), (0, 0, 0, 1, 2, 3))
    controls = (
        rated("none", 0, 1, 1, 1),  # all ties: half
        rated("swapped:user", 0, 3, 2, 1),  # all the other way round
        rated("swapped:user", 1, 1, 2, 3),  # all alike
        ControlRating(view="swapped:user", draw=2, rating=Rating(unscored="no idea")),
    )
    texts = ControlTexts(view="none", texts=("a", "b"), grades=(Grade(0.5), NO_GRADE))
    held = msgspec.structs.replace(own, ratings=controls, written=(texts,))
    assert _control_agreements([held, own], "none") == pytest.approx([0.5, np.nan], nan_ok=True)
    assert _control_agreements([held], "swapped:user") == pytest.approx([0.5])
    assert _control_scores([held, own], "none") == pytest.approx([0.5, np.nan], nan_ok=True)


def test_scores_are_over_prompts_that_both_policies_have_and_agreement_over_its_own() -> None:
    values = np.array([[0.2, 0.4], [1.0, np.nan]])
    assert (_mean(values, 0), _mean(values, 1)) == (0.2, 0.4)
    assert (_own_mean(values, 0), _own_mean(values, 1)) == (0.6, 0.4)
    assert (_mean(values[1:], 0), _own_mean(values[1:], 1)) == (None, None)


def test_a_fall_that_is_clear_is_told() -> None:
    def told(low: float, high: float) -> bool:
        fallen = Change(difference=-0.1, low=low, high=high, p=0.01, q=0.01, n=9, users=9)
        rose = Change(difference=0.1, low=0.05, high=0.2, p=0.01, q=0.01, n=9, users=9)
        return any("agree less often" in one.text for one in findings([], None, None, rose, rose, fallen))

    assert told(-0.2, -0.01)
    assert not told(-0.2, 0.01)
