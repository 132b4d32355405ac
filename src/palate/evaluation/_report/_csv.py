"""The result table as CSV (RFC 4180), one row for each reward model and view."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from palate.evaluation._report._groups import Row, groups
from palate.evaluation._results import Gain, Summary
from palate.stats import Estimate

Cell = str | int | float | None

COLUMNS: dict[str, str] = {
    "rm": "the reward model",
    "view": "what of the user it saw",
    "of": "for swapped and twin views, the view that was taken from somebody else",
    "n": "items with a score",
    "users": "users with at least one scored item",
    "accuracy": "share of scored items where the preferred response comes first; a tie is its fair share",
    "accuracy_low": "lower end of the 95% interval, resampling users",
    "accuracy_high": "upper end of it",
    "macro": "mean over users of each user's accuracy",
    "chance": "what guessing gets on the same items",
    "ties": "scored items where the model could not choose",
    "unscored": "items without a score, left out of the accuracy",
    "empty": "items whose view had nothing to show",
    "notes": "scored items that carry a note",
    "gain_over_none": "accuracy minus accuracy under none, on the same items",
    "gain_over_none_low": "lower end of its 95% interval",
    "gain_over_none_high": "upper end of it",
    "gain_over_none_q": "its false discovery rate over all gains of the run",
    "stranger": "the view of somebody else that the next four columns compare with",
    "gain_over_stranger": "accuracy minus accuracy under that view, on the same items",
    "gain_over_stranger_low": "lower end of its 95% interval",
    "gain_over_stranger_high": "upper end of it",
    "gain_over_stranger_q": "its false discovery rate over all gains of the run",
    "oracle_gap_closed": "how far the view gets from none towards oracle",
    "oracle_gap_closed_low": "lower end of its 95% interval",
    "oracle_gap_closed_high": "upper end of it",
    "length_controlled": "mean of the accuracy where the preferred response is longer and where it is shorter",
    "length_controlled_low": "lower end of its 95% interval",
    "length_controlled_high": "upper end of it",
    "twin_consistency": "share of twin pairs where both twins are right",
    "twin_consistency_low": "lower end of its 95% interval",
    "twin_consistency_high": "upper end of it",
    "calibration_n": "scored items with probabilities",
    "brier": "mean squared error of the probabilities",
    "ece": "expected calibration error, 10 bins",
}
"""Every column in order, with what it means. All shares are from 0 to 1; an empty cell is unknown."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def render_csv(summary: Summary) -> str:
    """The result table with full precision; names that a spreadsheet would run are defused."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for group in groups(summary):
        writer.writerows(list(_cells(row)) for row in group.rows)
    return text.getvalue()


def _cells(row: Row) -> Iterator[Cell]:
    result, calibration = row.result, row.result.calibration
    yield from (_inert(result.rm), _inert(result.view), _inert(result.of), result.n, result.users)
    yield from (result.accuracy, result.low, result.high, result.macro, result.chance)
    yield from (result.ties, result.unscored, result.empty, result.notes)
    yield from _gain(row.over_none)
    yield _inert(row.over_stranger.over if row.over_stranger else None)
    yield from _gain(row.over_stranger)
    yield from _estimate(result.oracle_gap_closed)
    yield from _estimate(result.length_controlled)
    yield from _estimate(result.twin_consistency)
    yield from (calibration.n, calibration.brier, calibration.ece) if calibration else (None, None, None)


def _gain(gain: Gain | None) -> tuple[Cell, ...]:
    return (gain.gain, gain.low, gain.high, gain.q) if gain else (None, None, None, None)


def _estimate(estimate: Estimate | None) -> tuple[Cell, ...]:
    return (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)


def _inert(name: str | None) -> str | None:
    """A name that a spreadsheet takes for text: an apostrophe goes before what would start a formula."""
    if name is not None and name.lstrip(" ").startswith(_FORMULA_STARTS):
        return "'" + name
    return name
