"""What the change of the critic's score is made of, against means taken by hand."""

from __future__ import annotations

import pytest

from palate.downstream._items import PromptItem
from palate.downstream.ppo._results import Change
from palate.downstream.ppo._run import HeldOutLine
from palate.downstream.ppo._summary import _parts
from palate.records import Grade, Rating


def changes(lines: list[HeldOutLine]) -> dict[str, Change]:
    """Each line is of another user."""
    return _parts([PromptItem(id=one.item, user_id=f"user of {one.item}", prompt="?") for one in lines], lines, seed=0)


def line(number: int, *parts: dict[str, float]) -> HeldOutLine:
    """One text of each policy for a user's only prompt, with what their grades are made of."""
    return HeldOutLine(
        item=f"item-{number}",
        policy_view="none",
        view="none",
        texts=("before", "after"),
        tokens=(1, 1),
        rating=Rating((0.0, 0.0)),
        grades=tuple(Grade(sum(own.values()), parts=own) if own else Grade(unscored="empty") for own in parts),
    )


def test_each_part_is_over_the_prompts_that_have_it() -> None:
    lines = [line(number, {"length": 1.0}, {"length": 1.5}) for number in range(5)]
    lines += [line(number, {"topic": 0.0, "length": 2.0}, {"topic": 4.0, "length": 1.5}) for number in range(5, 11)]
    lines.append(line(11, {"topic": 9.0}, {}))  # without a grade of the trained policy there is no change
    parts = changes(lines)
    assert list(parts) == ["topic", "length"]  # what changed most comes first
    assert (parts["topic"].difference, parts["topic"].n, parts["topic"].users) == (4.0, 6, 6)
    assert parts["length"].difference == pytest.approx((5 * 0.5 - 6 * 0.5) / 11)


def test_what_fewer_than_five_users_have_is_not_told() -> None:
    lines = [
        line(number, {"all": 0.0, f"only {number}": 1.0}, {"all": 1.0, f"only {number}": 3.0}) for number in range(9)
    ]
    lines += [line(number, {"few": 0.0}, {"few": 1.0}) for number in range(9, 13)]
    lines += [line(number, {"few": 0.0}, {}) for number in range(13, 19)]  # more have it, and four before and after
    assert list(changes(lines)) == ["all"]
