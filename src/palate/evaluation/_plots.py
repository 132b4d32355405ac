"""What the page plots: accuracies, the cold start, gains, differences between models, and users one by one."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence

from scipy.special import bdtr

from palate.evaluation._order import (
    ModelRows,
    ResultRow,
    condensed,
    groups,
    is_control,
    is_stranger,
    telling_differences,
    view_kind,
    views,
)
from palate.evaluation._results import Result, Summary
from palate.report import (
    IN_PERCENT,
    IN_POINTS,
    Band,
    Chart,
    Histogram,
    Histograms,
    IntervalPlot,
    Mark,
    PlotRow,
    Step,
    chance_of_error,
    draw_curves,
    draw_histogram,
    draw_intervals,
    fullest_bin,
    percent,
    percent_interval,
    points,
    points_interval,
    shortened,
)
from palate.stats import PairedTest

_PROFILE_SHAPES = ("square", "diamond", "triangle", "hexagon")
_STRANGER_SHAPES = ("cross", "plus")

OVER_NONE = Mark("circle", "none")
OVER_STRANGER = Mark("cross", "stranger-0")
EVERY_VIEW = Mark("circle", "none")
DIFFERENCE = Mark("diamond", "profile-0")


def marks(summary: Summary) -> dict[str, Mark]:
    """The shape and colour of each view, by its label; the same all over the page."""
    found: dict[str, Mark] = {}
    profiles = strangers = 0
    for row in views(summary):
        if row.kind == "profile":
            found[row.label] = Mark(_PROFILE_SHAPES[profiles % 4], f"profile-{profiles % 4}")
            profiles += 1
        elif row.kind == "stranger":
            found[row.label] = Mark(_STRANGER_SHAPES[strangers % 2], f"stranger-{strangers % 2}")
            strangers += 1
        else:
            found[row.label] = Mark("circle" if row.kind == "none" else "star", row.kind)
    return found


def accuracy_plot(summary: Summary) -> IntervalPlot | None:
    """The forest plot: accuracy by model and view, against chance."""
    looks = marks(summary)
    return draw_intervals(
        [_accuracy_band(group, looks) for group in groups(summary)],
        IN_PERCENT,
        title="Accuracy of each reward model under each view",
        axis="accuracy, with 95% interval",
        reference="chance",
        legend=looks,
    )


def known_of(view: str) -> int | None:
    """How many judgements a view shows; nothing for views that are no step of the cold-start curve.

    >>> known_of("none"), known_of("judgements:8"), known_of("posts:5")
    (0, 8, None)
    """
    if view == "none":
        return 0
    kind, _, number = view.partition(":")
    return int(number) if kind == "judgements" and number.isdigit() else None


def cold_start_chart(summary: Summary) -> Chart | None:
    """Accuracy against how many judgements of the user are known; nothing where a run has fewer than three steps."""
    curves: dict[str, list[Step]] = defaultdict(list)
    if len({known for result in summary.results if (known := known_of(result.view)) is not None}) < 3:
        return None
    for result in summary.results:
        known = known_of(result.view)
        if known is not None and result.accuracy is not None and not is_control(result.rm):
            curves[result.rm].append(Step(known, result.accuracy, result.low, result.high))
    return draw_curves(
        curves,
        IN_PERCENT,
        title="Accuracy against judgements known of the user",
        axis="judgements known of the user",
        step="{} known",
    )


_USERS = re.compile(r"(.+),users=(\d+)")
"""What `palate train` calls a model that was trained on some of the users."""


def users_curve(summary: Summary) -> list[tuple[str, int | None, Result]]:
    """Of a run with a curve over users: method, how many users it was trained on, and how it does; None is all.

    Under the last view that shows the person: the one that shows most.
    """
    parts = {result.rm: _USERS.fullmatch(result.rm) for result in summary.results}
    methods = list(dict.fromkeys(part[1] for part in parts.values() if part))
    shown = [result.view for result in summary.results if result.rm in methods and result.of is None]
    found = []
    for result in summary.results:
        part = parts[result.rm]
        method = part[1] if part else result.rm
        if method in methods and result.view == shown[-1] and result.accuracy is not None:
            found.append((method, int(part[2]) if part else None, result))
    return sorted(found, key=lambda one: (methods.index(one[0]), math.inf if one[1] is None else one[1]))


def users_chart(summary: Summary) -> Chart | None:
    """Accuracy against how many users were trained on; nothing in runs without such a curve."""
    curves: dict[str, list[Step]] = defaultdict(list)
    for method, users, result in users_curve(summary):
        if users is not None and result.accuracy is not None:
            curves[method].append(Step(users, result.accuracy, result.low, result.high))
    return draw_curves(
        curves,
        IN_PERCENT,
        title="Accuracy against users trained on",
        axis="users trained on",
        step="{} users",
    )


def gain_plot(summary: Summary) -> IntervalPlot | None:
    """What each view adds over no profile and over a stranger's; nothing where no gain was measured."""
    # A control that never changes gains nothing by construction: the table has it, the plot need not.
    names = list(dict.fromkeys(gain.rm for gain in summary.gains if gain.difference != 0 or not is_control(gain.rm)))
    names.sort(key=is_control)
    return draw_intervals(
        [_gain_band(summary, rm) for rm in names],
        IN_POINTS,
        title="Gain of each view over no profile and over somebody else's",
        axis="gain in percentage points, with 95% interval",
        reference="no difference",
        legend={"over no profile": OVER_NONE, "over somebody else's profile": OVER_STRANGER},
    )


def difference_plot(summary: Summary) -> IntervalPlot | None:
    """Paired differences between models under profiles of the person; nothing where there are none."""
    rows: dict[tuple[str, str], list[PlotRow]] = defaultdict(list)
    for found in telling_differences(summary):
        if view_kind(found.view) == "profile":
            detail = f"{points_interval(found.low, found.high)}, q {chance_of_error(found.q)}"
            rows[found.rm, found.view].append(_difference_row(found, f"minus {found.than}", DIFFERENCE, detail))
    bands = [Band(title=f"{rm}, {view}", dim=is_control(rm), rows=tuple(own)) for (rm, view), own in rows.items()]
    return _plot_differences(bands, "Difference in accuracy between models on the same items")


def baseline_plot(summary: Summary) -> IntervalPlot | None:
    """Each model against the impersonal one of a training run; nothing in other runs."""
    rows: dict[str, list[PlotRow]] = defaultdict(list)
    for found in summary.over_baseline:
        if view_kind(found.view) == "profile":
            everybody = found.known == "any"
            label = found.view if everybody else f"{found.view}, {found.known} known"
            detail = f"{found.users:,} users, q {chance_of_error(found.q)}"
            rows[found.rm].append(_difference_row(found, label, DIFFERENCE if everybody else OVER_NONE, detail))
    bands = [Band(title=rm, dim=is_control(rm), rows=tuple(own)) for rm, own in rows.items()]
    return _plot_differences(bands, "Each model against the impersonal one")


def _plot_differences(bands: Sequence[Band], title: str) -> IntervalPlot | None:
    axis = "difference in points, with 95% interval"
    return draw_intervals(bands, IN_POINTS, title=title, axis=axis, reference="no difference")


def _difference_row(found: PairedTest, label: str, mark: Mark, detail: str) -> PlotRow:
    return PlotRow(
        label=label,
        mark=mark,
        value=found.difference,
        low=found.low,
        high=found.high,
        reference=0.0,
        text=points(found.difference),
        detail=detail,
    )


def _accuracy_band(group: ModelRows, looks: dict[str, Mark]) -> Band:
    rows = tuple(_accuracy_row(row, looks.get(row.label, EVERY_VIEW)) for row in condensed(group))
    return Band(title=group.rm, dim=group.control, rows=rows)


def _accuracy_row(row: ResultRow, mark: Mark) -> PlotRow:
    result = row.result
    scored = result.accuracy is not None
    return PlotRow(
        label=row.label,
        mark=mark,
        value=result.accuracy,
        low=result.low,
        high=result.high,
        reference=result.chance,
        text=percent(result.accuracy) if scored else "no score",
        detail=percent_interval(result.low, result.high) if scored else "",
    )


def _gain_band(summary: Summary, rm: str) -> Band:
    own = [gain for gain in summary.gains if gain.rm == rm]
    order = list(dict.fromkeys(gain.view for gain in own))
    own.sort(key=lambda gain: (view_kind(gain.view) != "profile", order.index(gain.view)))
    rows = []
    for gain in own:
        mark = OVER_STRANGER if is_stranger(summary, gain) else OVER_NONE
        detail = f"over {shortened(gain.over.split(':')[0], 10)}, q {chance_of_error(gain.q)}"
        rows.append(_difference_row(gain, gain.view, mark, detail))
    return Band(title=rm, dim=is_control(rm), rows=tuple(rows))


def histograms(summary: Summary) -> list[Histograms]:
    """Users by their own accuracy, for every model and view that has some; models share one scale, controls another."""
    users: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for user in summary.user_accuracies:
        users[user.rm, user.view].append((user.accuracy, user.n))
    looks = marks(summary)
    found = []
    for group in groups(summary):
        alike = [own for (rm, _), own in users.items() if is_control(rm) == group.control]
        tallest = max((fullest_bin([accuracy for accuracy, _ in own]) for own in alike), default=1)
        shown = tuple(
            _histogram(row, looks[row.label], users[group.rm, row.result.view], tallest)
            for row in group.rows
            if users.get((group.rm, row.result.view))
        )
        if shown:
            folded = f"{group.rm}, a control" if group.control else ""
            found.append(Histograms(title=group.rm, shown=shown, folded=folded))
    return found


def _histogram(row: ResultRow, mark: Mark, users: Sequence[tuple[float, int]], tallest: int) -> Histogram:
    chance = 0.5 if row.result.chance is None else row.result.chance
    return draw_histogram(
        row.label,
        mark,
        [accuracy for accuracy, _ in users],
        reference=chance,
        expected=sum(_guessing_below(n, chance) for _, n in users),
        tallest=tallest,
    )


def _guessing_below(n: int, chance: float) -> float:
    """The probability that a guesser gets less than `chance` of `n` items."""
    if n < 1 or not 0 < chance < 1:
        return 0.0
    most = math.ceil(n * chance - 1e-9) - 1
    return float(bdtr(most, n, chance)) if most >= 0 else 0.0
