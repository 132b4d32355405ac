"""The order in which every form of the report shows models and views."""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.evaluation._results import Difference, Gain, Result, Summary
from palate.rewards import CONTROLS

ViewKind = Literal["none", "profile", "stranger", "oracle"]


_STRANGERS = ("swapped", "co-annotator", "twin")
_ORDER: dict[ViewKind, int] = {"none": 0, "profile": 1, "stranger": 2, "oracle": 3}


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the result table: a result and the gains that belong beside it."""

    result: Result
    label: str
    kind: ViewKind
    over_none: Gain | None
    over_stranger: Gain | None


class ModelRows(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model with its rows."""

    rm: str
    control: bool
    rows: tuple[ResultRow, ...]


def is_control(rm: str) -> bool:
    """Whether a reward model is one of the controls, whatever its options: what they reach is free.

    >>> is_control("overlap:judgements"), is_control("embedding")
    (True, False)
    """
    return _head(rm) in CONTROLS


def view_kind(view: str, of: str | None = None) -> ViewKind:
    """What a view stands for in a comparison: nobody, the person, somebody else, or the truth."""
    head = _head(view)
    if of is not None or head in _STRANGERS:
        return "stranger"
    if head == "none":
        return "none"
    return "oracle" if head == "oracle" else "profile"


def groups(summary: Summary) -> list[ModelRows]:
    """Models in the order of the run, controls after them; views from `none` to `oracle`."""
    names = list(dict.fromkeys(result.rm for result in summary.results))
    several = len({(r.view, r.of) for r in summary.results if view_kind(r.view, r.of) == "stranger"}) > 1
    found = [_group(summary, rm, several) for rm in names]
    return sorted(found, key=lambda group: group.control)


def condensed(group: ModelRows) -> tuple[ResultRow, ...]:
    """The rows of a group, where a control that does the same under every view needs only one."""
    first = group.rows[0]
    alike = all(_figures(row.result) == _figures(first.result) for row in group.rows)
    if not group.control or len(group.rows) == 1 or not alike:
        return group.rows
    return (msgspec.structs.replace(first, label="every view", over_none=None, over_stranger=None),)


def views(summary: Summary) -> list[ResultRow]:
    """One row for each view of the run, in the order of the tables, whichever model it comes from."""
    seen: dict[str, ResultRow] = {}
    for group in groups(summary):
        for row in group.rows:
            seen.setdefault(row.label, row)
    return sorted(seen.values(), key=lambda row: _ORDER[row.kind])


def is_stranger(summary: Summary, gain: Gain) -> bool:
    """Whether a gain is over somebody else's profile."""
    if view_kind(gain.over) == "stranger":
        return True
    return any(r.rm == gain.rm and r.view == gain.over and r.of is not None for r in summary.results)


def difference_between(summary: Summary, view: str, rm: str, than: str) -> Difference | None:
    """The paired difference of two models under a view, turned so that `rm` comes first."""
    for found in summary.differences:
        if found.view == view and (found.rm, found.than) == (rm, than):
            return found
        if found.view == view and (found.rm, found.than) == (than, rm):
            return _turned(found)
    return None


def telling_differences(summary: Summary) -> list[Difference]:
    """The differences in which at least one model is not a control, turned so that it comes first."""
    return [
        _turned(found) if is_control(found.rm) else found
        for found in summary.differences
        if not (is_control(found.rm) and is_control(found.than))
    ]


def _turned(found: Difference) -> Difference:
    return msgspec.structs.replace(
        found,
        rm=found.than,
        than=found.rm,
        difference=-found.difference,
        low=None if found.high is None else -found.high,
        high=None if found.low is None else -found.low,
    )


def _group(summary: Summary, rm: str, several_strangers: bool) -> ModelRows:
    rows = [_row(summary, result, several_strangers) for result in summary.results if result.rm == rm]
    rows.sort(key=lambda row: _ORDER[row.kind])
    return ModelRows(rm=rm, control=is_control(rm), rows=tuple(rows))


def _row(summary: Summary, result: Result, several_strangers: bool) -> ResultRow:
    own = [gain for gain in summary.gains if (gain.rm, gain.view) == (result.rm, result.view)]
    strangers = [gain for gain in own if is_stranger(summary, gain)]
    # The hardest control decides. A twin wants the opposite, so a gain over the twin flatters and comes last.
    strangers.sort(key=lambda gain: (_head(gain.over) == "twin", gain.difference if gain.low is None else gain.low))
    named = result.of is not None and several_strangers and result.of not in result.view
    return ResultRow(
        result=result,
        label=f"{result.view} of {result.of}" if named else result.view,
        kind=view_kind(result.view, result.of),
        over_none=next((gain for gain in own if view_kind(gain.over) == "none"), None),
        over_stranger=next(iter(strangers), None),
    )


def _figures(result: Result) -> tuple[float | None, ...]:
    return (result.accuracy, result.low, result.high, result.n, result.ties, result.unscored)


def _head(name: str) -> str:
    return name.split(",")[0].split(":")[0].strip()
