"""What the numbers say, in plain English and in no more words than they bear out.

A gain is called a gain only where q is below .05 and the 95% interval leaves zero out; otherwise the
sentence says that no gain can be measured, which is not the same as saying that it is zero.
"""

from __future__ import annotations

from typing import Literal

from palate.evaluation._order import ModelRows, ResultRow, difference_between, groups, is_control
from palate.evaluation._results import Difference, Gain, Summary
from palate.report import CLEAR, Finding, percent, percent_interval, points, points_interval

Direction = Literal["up", "down", "unclear", "absent"]

USES = "it uses the person's own profile"
NO_PERSONAL_GAIN = "This is not the personal gain, which compares a model with itself under none and swapped."


def readings(summary: Summary) -> list[Finding]:
    """One for each view of each reward model that is neither a control nor the impersonal model of a training run."""
    impersonal = {one.than for one in summary.over_baseline}
    shown = [group for group in groups(summary) if not group.control and group.rm not in impersonal]
    return [finding for group in shown for finding in _read(summary, group)]


def _read(summary: Summary, group: ModelRows) -> list[Finding]:
    if all(row.result.accuracy is None for row in group.rows):
        return [
            Finding(
                "note",
                "no item has a score",
                "Nothing can be said of it; the items of the page say why",
                about=group.rm,
            )
        ]
    profiles = [row for row in group.rows if row.kind == "profile"]
    if not profiles:
        return [_without_profile(group)]
    return [_finding(summary, row) for row in profiles]


def _without_profile(group: ModelRows) -> Finding:
    row = next(row for row in group.rows if row.result.accuracy is not None)
    result = row.result
    numbers = f"accuracy {percent(result.accuracy)} under {row.label}"
    if result.low is not None:
        numbers += f" (95% {percent_interval(result.low, result.high)})"
    text = "it was never shown a profile of the person, so this run cannot say if it would use one"
    return Finding("note", text, numbers, about=group.rm)


def _finding(summary: Summary, row: ResultRow) -> Finding:
    rm = row.result.rm
    if row.result.accuracy is None:
        return Finding("note", f"no item has a score under {row.label}", "Nothing can be said of this view", about=rm)
    over_none, over_stranger = direction(row.over_none), direction(row.over_stranger)
    numbers = f"Seeing {row.label} {_numbers(row.over_none, row.over_stranger)}"
    verdict = _VERDICTS[over_none, over_stranger]
    if verdict == USES:
        return Finding(
            "good", verdict + _against_overlap(summary, row) + _against_blind(summary, row), numbers, about=rm
        )
    return Finding("note", verdict, numbers, about=rm)


def direction(gain: Gain | Difference | None) -> Direction:
    """Which way a gain goes, as far as this run can tell."""
    if gain is None:
        return "absent"
    if gain.low is None or gain.high is None:
        return "unclear"
    if gain.q < CLEAR and gain.low > 0:
        return "up"
    return "down" if gain.q < CLEAR and gain.high < 0 else "unclear"


def is_clear_gain(gain: Gain) -> bool:
    """Whether this run tells the gain from zero, once corrected for all gains of its table."""
    return direction(gain) == "up"


def _numbers(over_none: Gain | None, over_stranger: Gain | None) -> str:
    if over_none is None and over_stranger is None:
        return "was compared neither with no profile nor with a stranger's"
    if over_none is None:
        assert over_stranger is not None
        return _alone(over_stranger)
    if over_stranger is None:
        return _alone(over_none)
    return _alone(over_none) + _joined(direction(over_none), over_stranger)


def _alone(gain: Gain) -> str:
    whom, interval = _whom(gain), _interval(gain)
    match direction(gain):
        case "up":
            return f"adds {points(gain.difference)} points over {whom} ({interval})"
        case "down":
            return f"costs {points(-gain.difference).removeprefix('+')} points against {whom} ({interval})"
        case _:
            return f"brings no measurable gain over {whom} ({points(gain.difference)}, {interval})"


def _joined(before: Direction, gain: Gain) -> str:
    whom, interval = _whom(gain), _interval(gain)
    match direction(gain):
        case "up":
            conjunction = "and" if before == "up" else "yet is"
            return f" {conjunction} {points(gain.difference)} over {whom} ({interval})"
        case "down":
            conjunction = "yet" if before == "up" else "and"
            return f" {conjunction} is {points(gain.difference)} against {whom} ({interval})"
        case _ if before == "unclear":
            return f" or over {whom} ({points(gain.difference)}, {interval})"
        case _:
            return f", and no measurable gain over {whom} ({points(gain.difference)}, {interval})"


def _interval(gain: Gain) -> str:
    if gain.low is None or gain.high is None:
        return "too few users for an interval"
    interval = f"95% {points_interval(gain.low, gain.high)}"
    if gain.q >= CLEAR and (gain.low > 0 or gain.high < 0):
        interval += f", not significant once corrected for all gains, q {gain.q:.2f}"
    return interval


def _whom(gain: Gain) -> str:
    if gain.over == "none":
        return "no profile"
    if gain.over.startswith("co-annotator"):
        return "the profile of somebody who judged the same pair"
    return "the twin's profile" if gain.over.startswith("twin") else "a stranger's profile"


_BETTER_WITHOUT = "it is better off without a profile"
_STRANGER_BETTER = "it does better with a stranger's profile than with the person's own"
_NO_STRANGER = "no stranger's profile was tried, so this run cannot say if it is the person that helps"

_VERDICTS: dict[tuple[Direction, Direction], str] = {
    ("up", "up"): USES,
    ("up", "unclear"): "a profile helps, but this run does not show that it has to be this person's",
    ("up", "down"): _STRANGER_BETTER,
    ("up", "absent"): _NO_STRANGER,
    ("unclear", "up"): "it tells people apart, but this run shows no gain over knowing nothing",
    ("unclear", "unclear"): "this run does not show that it uses the person's own profile",
    ("unclear", "down"): _STRANGER_BETTER,
    ("unclear", "absent"): "this run does not show that it uses the person's own profile",
    ("down", "up"): f"it tells people apart, and yet {_BETTER_WITHOUT}",
    ("down", "unclear"): _BETTER_WITHOUT,
    ("down", "down"): _BETTER_WITHOUT,
    ("down", "absent"): _BETTER_WITHOUT,
    ("absent", "up"): "it tells people apart, but it has no score without a profile to compare with",
    ("absent", "unclear"): "this run does not show that it uses the person's own profile",
    ("absent", "down"): _STRANGER_BETTER,
    ("absent", "absent"): "add the views none and swapped to learn whether it uses the person's own profile",
}


def _against_blind(summary: Summary, row: ResultRow) -> str:
    """A control that reads nothing of the person and still gets more: what was used may be no taste."""
    blind = [
        result
        for result in summary.results
        if is_control(result.rm) and result.view == row.result.view and not result.rm.startswith("overlap")
    ]
    best = max(blind, key=lambda result: result.accuracy or 0.0, default=None)
    if best is None or best.accuracy is None or best.accuracy <= (row.result.accuracy or 0.0):
        return ""
    return f", though {best.rm}, which reads nothing of the person, gets {percent(best.accuracy)}"


def _against_overlap(summary: Summary, row: ResultRow) -> str:
    """How a model that uses the person stands to the control that only counts shared words."""
    names = {result.rm for result in summary.results if is_control(result.rm) and result.rm.startswith("overlap")}
    for name in sorted(names):
        found = difference_between(summary, row.result.view, row.result.rm, name)
        match direction(found):
            case "up" if found is not None:
                return f", and beats counting shared words by {points(found.difference).removeprefix('+')} points"
            case "down" if found is not None:
                return f", but less well than counting shared words does ({points(found.difference)})"
            case "unclear" if found is not None:
                return f", but this run cannot tell it from counting shared words ({points(found.difference)})"
    return ""


def findings_of(summary: Summary) -> list[Finding]:
    """Warnings first, then what the numbers say of each model."""
    said = readings(summary) or [Finding("note", "This run holds controls only")]
    return [*(Finding("warning", warning) for warning in summary.warnings), *said, *summary.about_data]
