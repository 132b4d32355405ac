"""The cold-start curve: accuracy against how many judgements of the user are known."""

from __future__ import annotations

from palate.evaluation._report._groups import is_control
from palate.evaluation._results import Summary
from palate.report._curve import IN_PERCENT, CurvePlot, Step, draw_curves


def known_of(view: str) -> int | None:
    """How many judgements a view shows; nothing for views that are no step of the curve.

    >>> known_of("none"), known_of("judgements:8"), known_of("posts:5")
    (0, 8, None)
    """
    if view == "none":
        return 0
    kind, _, number = view.partition(":")
    return int(number) if kind == "judgements" and number.isdigit() else None


def cold_start_plot(summary: Summary) -> CurvePlot | None:
    """The cold-start curve; nothing where a run has fewer than three steps."""
    curves: dict[str, list[Step]] = {}
    steps = {known for result in summary.results if (known := known_of(result.view)) is not None}
    if len(steps) < 3:
        return None
    for result in summary.results:
        known = known_of(result.view)
        if known is not None and result.accuracy is not None and not is_control(result.rm):
            curves.setdefault(result.rm, []).append(Step(known, result.accuracy, result.low, result.high))
    return draw_curves(
        curves,
        IN_PERCENT,
        key="curve",
        title="Accuracy against judgements known of the user",
        axis="judgements known of the user",
        step="{} known",
    )
