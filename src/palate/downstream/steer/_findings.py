"""What the table says in words: what to distrust first, then what was found, and what was not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream.steer._results import SteerDifference, SteerRow
from palate.report import CLEAR, Finding, chance_of_error, change_with_interval, count, percent, warnings_first

FEW_USERS = 30


def findings(
    rows: Sequence[SteerRow], differences: Sequence[SteerDifference], users: int, about: Sequence[Finding]
) -> list[Finding]:
    """Warnings first; `about` is what the parts say of what they wrote."""
    found = [*about]
    if users < FEW_USERS:
        found.append(Finding("warning", f"only {count(users, 'independent user')}: intervals from so few can mislead"))
    found += [*_over_none(differences), *_or_in_context(rows, differences), *_accuracies(rows, differences)]
    return warnings_first(found)


def _over_none(differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """By ROUGE-1: what is worse than the policy alone, what is better, and what is not established."""
    asked = [
        one for one in differences if one.about == "over none" and one.measure == "rouge1" and "(oracle)" not in one.one
    ]
    better = [f"{_said(one)}, {_q(one)}" for one in asked if one.q < CLEAR and one.difference > 0]
    worse = [f"{_said(one)}, {_q(one)}" for one in asked if one.q < CLEAR and one.difference < 0]
    unclear = [_said(one) for one in asked if one.q >= CLEAR]
    if worse:
        yield Finding("warning", f"by ROUGE-1 worse than the policy alone: {'; '.join(worse)}")
    if better:
        yield Finding("good", f"by ROUGE-1 better than the policy alone: {'; '.join(better)}")
    if unclear:
        yield Finding("note", f"by ROUGE-1 not established to differ from the policy alone: {'; '.join(unclear)}")


def _or_in_context(rows: Sequence[SteerRow], differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """Does any text that a reward model steered beat in-context learning?"""
    asked = [one for one in differences if one.about == "steered or in context"]
    if not asked:
        return
    better = [one for one in asked if one.q < CLEAR and one.difference > 0]
    worse = [one for one in asked if one.q < CLEAR and one.difference < 0]
    for one in better:
        yield Finding("good", f"{one.one} beats {one.other}: ROUGE-1 {change_with_interval(one)}, {_q(one)}")
    if worse:
        names = "; ".join(f"{one.other} over {one.one} {change_with_interval(one)}" for one in worse)
        yield Finding("note", f"in-context learning is ahead by ROUGE-1 (shown as the other minus it): {names}")
    if not better:
        steered = sum(row.kind in ("best-of-n", "guided") and not row.control for row in rows)
        rest = len(asked) - len(worse)
        open_ones = f"; {rest} of {len(asked)} comparisons are open" if rest else ""
        yield Finding(
            "note", f"none of {steered} reward-steered methods is shown to beat in-context learning{open_ones}"
        )


def _accuracies(rows: Sequence[SteerRow], differences: Sequence[SteerDifference]) -> Iterator[Finding]:
    """Reward accuracy beside what the guided policy makes of it."""
    over = {one.one: one for one in differences if one.about == "over none" and one.measure == "policy"}
    for row in rows:
        if row.kind != "guided" or row.control or row.reward is None or row.policy is None or row.label not in over:
            continue
        gain = over[row.label]
        clear = gain.q < CLEAR
        points = f"{100 * gain.difference:+.1f} points over the policy's own likelihood"
        yield Finding(
            "good" if clear and gain.difference > 0 else "warning" if clear else "note",
            f"{row.name} seeing {row.view} tells the user's text in {percent(row.reward.value)} of pairs; the policy "
            f"that it guides prefers it in {percent(row.policy.value)}, {points}, "
            + (_q(gain) if clear else "not established"),
        )


def _said(one: SteerDifference) -> str:
    return f"{one.one} {change_with_interval(one)}"


def _q(one: SteerDifference) -> str:
    return f"q = {chance_of_error(one.q)}"
