"""What the numbers say, in plain English and in no more words than they bear out.

A gain is called a gain only where q is below .05 and the 95% interval leaves zero out; otherwise the
sentence says that this run cannot tell it from zero, which is not the same as saying that it is zero.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.evaluation._report._groups import Group, Row, difference_between, groups, is_control
from palate.evaluation._results import Difference, Gain, Summary
from palate.report._numbers import CLEAR, percent, percent_interval, points, points_interval

Direction = Literal["up", "down", "unclear", "absent"]

USES = "it uses the person"
NO_PERSONAL_GAIN = "No personal gain is measured here: that is the gain over none and over swapped, of the same model."


class Sentence(msgspec.Struct, frozen=True):
    """What was measured, and what follows from it."""

    numbers: str
    verdict: str

    @property
    def text(self) -> str:
        """Both, as one sentence."""
        return f"{self.numbers}: {self.verdict}."


class Reading(msgspec.Struct, frozen=True):
    """What this run says of one reward model: a sentence for each view of the person."""

    rm: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The whole reading, which begins with the model's name."""
        first, *rest = (sentence.text for sentence in self.sentences)
        return " ".join([f"{self.rm}: {first}", *(text[0].upper() + text[1:] for text in rest)])


def readings(summary: Summary) -> list[Reading]:
    """One reading for each reward model that is neither a control nor the impersonal model of a training run."""
    impersonal = {one.than for one in summary.over_baseline}
    return [_read(summary, group) for group in groups(summary) if not group.control and group.rm not in impersonal]


def _read(summary: Summary, group: Group) -> Reading:
    if all(row.result.accuracy is None for row in group.rows):
        return Reading(group.rm, (Sentence("no item has a score", "nothing can be said of it"),))
    profiles = [row for row in group.rows if row.kind == "profile"]
    if not profiles:
        return Reading(group.rm, (_without_profile(group),))
    return Reading(group.rm, tuple(_sentence(summary, row) for row in profiles))


def _without_profile(group: Group) -> Sentence:
    row = next(row for row in group.rows if row.result.accuracy is not None)
    result = row.result
    numbers = f"accuracy {percent(result.accuracy)} under {row.label}"
    if result.low is not None:
        numbers += f" (95% {percent_interval(result.low, result.high)})"
    return Sentence(numbers, "it was never shown a profile of the person, so this run cannot say if it would use one")


def _sentence(summary: Summary, row: Row) -> Sentence:
    if row.result.accuracy is None:
        return Sentence(f"seeing {row.label}, no item has a score", "nothing can be said of this view")
    over_none, over_stranger = direction(row.over_none), direction(row.over_stranger)
    numbers = f"seeing {row.label} " + _numbers(row.over_none, row.over_stranger)
    verdict = _VERDICTS[over_none, over_stranger]
    if verdict == USES:
        verdict += _against_overlap(summary, row) + _against_blind(summary, row)
    return Sentence(numbers, verdict)


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
            return f"adds {points(gain.gain)} points over {whom} ({interval})"
        case "down":
            return f"costs {points(-gain.gain).removeprefix('+')} points against {whom} ({interval})"
        case _:
            return f"adds nothing that this run can tell from zero over {whom} ({points(gain.gain)}, {interval})"


def _joined(before: Direction, gain: Gain) -> str:
    whom, interval = _whom(gain), _interval(gain)
    match direction(gain):
        case "up":
            conjunction = "and" if before == "up" else "yet is"
            return f" {conjunction} {points(gain.gain)} over {whom} ({interval})"
        case "down":
            conjunction = "yet" if before == "up" else "and"
            return f" {conjunction} is {points(gain.gain)} against {whom} ({interval})"
        case _ if before == "unclear":
            return f" or over {whom} ({points(gain.gain)}, {interval})"
        case _:
            return f", and over {whom} nothing that this run can tell from zero ({points(gain.gain)}, {interval})"


def _interval(gain: Gain) -> str:
    if gain.low is None or gain.high is None:
        return "too few users for an interval"
    interval = f"95% {points_interval(gain.low, gain.high)}"
    if gain.q >= CLEAR and (gain.low > 0 or gain.high < 0):
        interval += f", which does not stand once corrected for all gains, q {gain.q:.2f}"
    return interval


def _whom(gain: Gain) -> str:
    if gain.over == "none":
        return "no profile"
    if gain.over.startswith("co-annotator"):
        return "the profile of somebody who judged the same pair"
    return "the twin's profile" if gain.over.startswith("twin") else "a stranger's profile"


_BETTER_WITHOUT = "it is better off without a profile"
_STRANGER_BETTER = "a stranger's profile serves it better than the person's own"
_NO_STRANGER = "no stranger's profile was tried, so this run cannot say if it is the person that helps"

_VERDICTS: dict[tuple[Direction, Direction], str] = {
    ("up", "up"): USES,
    ("up", "unclear"): "a profile helps, but this run does not show that it has to be this person's",
    ("up", "down"): _STRANGER_BETTER,
    ("up", "absent"): _NO_STRANGER,
    ("unclear", "up"): "it tells people apart, but this run shows no gain over knowing nothing",
    ("unclear", "unclear"): "this run does not show that it uses the person",
    ("unclear", "down"): _STRANGER_BETTER,
    ("unclear", "absent"): "this run does not show that it uses the person",
    ("down", "up"): f"it tells people apart, and yet {_BETTER_WITHOUT}",
    ("down", "unclear"): _BETTER_WITHOUT,
    ("down", "down"): _BETTER_WITHOUT,
    ("down", "absent"): _BETTER_WITHOUT,
    ("absent", "up"): "it tells people apart, but what it does without a profile is not known",
    ("absent", "unclear"): "this run does not show that it uses the person",
    ("absent", "down"): _STRANGER_BETTER,
    ("absent", "absent"): "add the views none and swapped to learn whether it uses the person",
}


def _against_blind(summary: Summary, row: Row) -> str:
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


def _against_overlap(summary: Summary, row: Row) -> str:
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
