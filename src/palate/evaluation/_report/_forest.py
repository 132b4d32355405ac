"""What the page's interval plots show: accuracies, gains, and differences between models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from palate.evaluation._report._groups import (
    Group,
    Row,
    condensed,
    groups,
    is_control,
    is_stranger,
    telling_differences,
    view_kind,
    views,
)
from palate.evaluation._results import Difference, Gain, OverBaseline, Summary
from palate.report._interval_plot import (
    Band,
    IntervalPlot,
    Mark,
    PlotRow,
    Scale,
    place_plot,
    scale_for,
    shortened,
)
from palate.report._numbers import (
    chance_of_error,
    percent,
    percent_interval,
    points,
    points_interval,
)

_ACCURACY_STEPS = (0.05, 0.1, 0.2)
_GAIN_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
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


def accuracy_plot(summary: Summary) -> IntervalPlot:
    """The forest plot: accuracy by model and view, against chance."""
    looks = marks(summary)
    bands = [_accuracy_band(group, looks) for group in groups(summary)]
    scale = scale_for((row for band in bands for row in band.rows), _ACCURACY_STEPS)
    return place_plot(
        bands,
        scale,
        name="accuracy",
        title="Accuracy of each reward model under each view",
        description=_described(bands),
        axis="accuracy, with 95% interval",
        tick_text=[f"{100 * value:.0f}%" for value in scale.values()],
    )


def gain_plot(summary: Summary) -> IntervalPlot | None:
    """What each view adds over no profile and over a stranger's; nothing where no gain was measured."""
    # A control that never changes gains nothing by construction: the table has it, the plot need not.
    names = list(dict.fromkeys(gain.rm for gain in summary.gains if gain.gain != 0 or not is_control(gain.rm)))
    names.sort(key=is_control)
    bands = [_gain_band(summary, rm) for rm in names]
    return _points_plot(
        bands,
        name="gains",
        title="Gain of each view over no profile and over somebody else's",
        axis="gain in percentage points, with 95% interval",
    )


def difference_plot(summary: Summary) -> IntervalPlot | None:
    """Paired differences between models under profiles of the person; nothing where there are none."""
    rows: dict[tuple[str, str], list[PlotRow]] = defaultdict(list)
    for found in telling_differences(summary):
        if view_kind(found.view) == "profile":
            rows[found.rm, found.view].append(_difference_row(found))
    bands = [Band(title=f"{rm}, {view}", dim=is_control(rm), rows=tuple(own)) for (rm, view), own in rows.items()]
    return _points_plot(
        bands,
        name="differences",
        title="Difference in accuracy between models on the same items",
        axis="difference in percentage points, with 95% interval",
    )


def baseline_plot(summary: Summary) -> IntervalPlot | None:
    """Each model against the impersonal one of a training run; nothing in other runs."""
    rows: dict[str, list[PlotRow]] = defaultdict(list)
    for found in summary.over_baseline:
        if view_kind(found.view) == "profile":
            rows[found.rm].append(_baseline_row(found))
    bands = [Band(title=rm, dim=is_control(rm), rows=tuple(own)) for rm, own in rows.items()]
    return _points_plot(
        bands,
        name="baseline",
        title="Each model against the impersonal one",
        axis="difference in percentage points, with 95% interval",
    )


def _baseline_row(found: OverBaseline) -> PlotRow:
    everybody = found.known == "any"
    return PlotRow(
        label=found.view if everybody else f"{found.view}, {found.known} known",
        mark=DIFFERENCE if everybody else OVER_NONE,
        value=found.difference,
        low=found.low,
        high=found.high,
        reference=0.0,
        text=points(found.difference),
        detail=f"{found.users:,} users, q {chance_of_error(found.q)}",
    )


def _accuracy_band(group: Group, looks: dict[str, Mark]) -> Band:
    rows = tuple(_accuracy_row(row, looks.get(row.label, EVERY_VIEW)) for row in condensed(group))
    return Band(title=group.rm, dim=group.control, rows=rows)


def _accuracy_row(row: Row, mark: Mark) -> PlotRow:
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
    rows = tuple(_gain_row(gain, is_stranger(summary, gain)) for gain in own)
    return Band(title=rm, dim=is_control(rm), rows=rows)


def _gain_row(gain: Gain, stranger: bool) -> PlotRow:
    return PlotRow(
        label=gain.view,
        mark=OVER_STRANGER if stranger else OVER_NONE,
        value=gain.gain,
        low=gain.low,
        high=gain.high,
        reference=0.0,
        text=points(gain.gain),
        detail=f"over {shortened(gain.over.split(':')[0], 10)}, q {chance_of_error(gain.q)}",
    )


def _difference_row(found: Difference) -> PlotRow:
    return PlotRow(
        label=f"minus {found.than}",
        mark=DIFFERENCE,
        value=found.difference,
        low=found.low,
        high=found.high,
        reference=0.0,
        text=points(found.difference),
        detail=f"{points_interval(found.low, found.high)}, q {chance_of_error(found.q)}",
    )


def _points_plot(bands: Sequence[Band], *, name: str, title: str, axis: str) -> IntervalPlot | None:
    if not bands:
        return None
    scale = scale_for((row for band in bands for row in band.rows), _GAIN_STEPS)
    return place_plot(
        bands,
        scale,
        name=name,
        title=title,
        description=_described(bands),
        axis=axis,
        tick_text=_whole_points(scale),
    )


def _whole_points(scale: Scale) -> list[str]:
    return [points(value).replace(".0", "") for value in scale.values()]


def _described(bands: Sequence[Band]) -> str:
    """The plot in words, for those who hear it rather than see it."""
    sentences = (
        f"{band.title}: "
        + ", ".join(f"{row.label} {row.text}{f' ({row.detail})' if row.detail else ''}" for row in band.rows)
        for band in bands
    )
    return ". ".join(sentences) + ". The table below has the same numbers."
