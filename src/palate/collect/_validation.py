"""Does a benchmark measure taste, and nothing else? Raters who do not know which response is the preferred one grade
both on four dimensions, and the profile of the person is shown for the last alone.

General quality must not differ: on factuality, relevance and helpfulness the mean difference has to lie within a margin
(two one-sided tests, Schuirmann 1987). Personal fit must differ: there the preferred response has to be better. Raters
and items are both a sample, so intervals are about new raters and new items. Both questions are asked at 2.5% on each
side, which is to say by one 95% interval. All four have to hold together, so that no correction is due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from palate.collect._agreement import Agreement, alpha_with_interval
from palate.collect._records import Answer, Collected, Item
from palate.records import PalateError
from palate.report import figure, figure_interval, percent
from palate.stats import Crossed, Floats, Quantity, Resamples, cluster_totals, intervals, ratio

GENERAL = ("factuality", "relevance", "helpfulness")
PERSONAL = "personal fit"
DIMENSIONS = (*GENERAL, PERSONAL)
MARGIN = 0.5
"""On a scale of 1 to 5: half a grade."""
MOST = 4.0
"""By which two grades of 1 to 5 can differ."""
FEWEST_RATERS = 2
"""Minimum number of raters before an item is named as one to look at."""

Verdict = Literal["equal", "not equal", "better", "not better", "open"]


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of the preferred response less that of the other, on one dimension."""

    dimension: str
    difference: float
    low: float | None
    high: float | None
    """95%, over new raters and new items; None with fewer than two raters."""
    higher: float
    """Share of the answers that grade the preferred response higher."""
    same: float
    answers: int
    raters: int
    items: int
    agreement: Agreement
    """Ordinal alpha of the grades themselves."""
    verdict: Verdict
    sentence: str


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What the raters say of a benchmark."""

    margin: float
    dimensions: tuple[Dimension, ...]
    passed: bool | None
    """True where general quality is equal and personal fit is better; False where one of these is refuted; None where
    the answers leave it open."""
    sentence: str
    review: tuple[str, ...]
    """Ids of items whose preferred response does not fit the person better in the mean, or whose responses differ in
    general quality by more than the margin."""


class _Graded(NamedTuple):
    answer: Answer
    item: Item
    difference: float


def validate(collected: Collected, *, task: str | None = None, margin: float = MARGIN, seed: int = 0) -> Validation:
    """Test the items of a validation task; PalateError where there is nothing to test."""
    if not 0 < margin < MOST:
        raise PalateError(f"margin {margin:g}: give a difference in grades between 0 and {MOST:g}")
    items = {item.id: item for item in collected.items if item.preferred is not None}
    answers = [
        answer
        for answer in collected.answers
        if answer.ratings and answer.repeat == 0 and answer.item in items and (task is None or answer.task == task)
    ]
    if not answers:
        raise PalateError(
            f"{collected.project}: no grades of items that name their preferred response yet; a validation needs both"
        )
    graded = {dimension: _graded(answers, items, dimension) for dimension in DIMENSIONS}
    dimensions = tuple(_measure(name, one, margin, seed) for name, one in graded.items() if one)
    verdicts = {one.dimension: one.verdict for one in dimensions}
    passed = _passed([verdicts.get(name, "open") for name in DIMENSIONS])
    return Validation(
        margin=margin,
        dimensions=dimensions,
        passed=passed,
        sentence=_conclusion(passed, dimensions),
        review=_to_review(graded, margin),
    )


def _graded(answers: Sequence[Answer], items: dict[str, Item], dimension: str) -> list[_Graded]:
    found = []
    for answer in answers:
        item, grades = items[answer.item], answer.ratings.get(dimension, ())
        given = [grade for grade in grades if grade is not None]
        if item.preferred is None or len(given) < len(item.responses):
            continue
        others = [grade for place, grade in enumerate(given) if place != item.preferred]
        found.append(_Graded(answer, item, given[item.preferred] - fmean(others)))
    return found


def _measure(dimension: str, graded: Sequence[_Graded], margin: float, seed: int) -> Dimension:
    differences = np.array([one.difference for one in graded])
    raters = np.unique([one.answer.participant for one in graded], return_inverse=True)[1]
    items = np.unique([one.item.id for one in graded], return_inverse=True)[1]
    low, high = _interval(differences, raters, items, seed)
    verdict = _equal(low, high, margin) if dimension in GENERAL else _better(low, high)
    mean = float(differences.mean())
    return Dimension(
        dimension=dimension,
        difference=mean,
        low=low,
        high=high,
        higher=float(np.mean(differences > 0)),
        same=float(np.mean(differences == 0)),
        answers=len(graded),
        raters=int(raters.max()) + 1,
        items=int(items.max()) + 1,
        agreement=alpha_with_interval(_grades(graded, dimension), "ordinal", seed=seed),
        verdict=verdict,
        sentence=_sentence(dimension, mean, low, high, verdict, margin),
    )


def _interval(
    differences: Floats, raters: np.ndarray, items: np.ndarray, seed: int
) -> tuple[float | None, float | None]:
    columns = np.stack([differences, np.ones(len(differences))], axis=1)
    n_raters, n_items = int(raters.max()) + 1, int(items.max()) + 1
    cells = np.unique(raters * n_items + items, return_inverse=True)[1]
    crossed = Crossed(cluster_totals(columns, items, n_items), cluster_totals(columns, cells, int(cells.max()) + 1))
    totals = cluster_totals(columns, raters, n_raters)
    quantity = Quantity(totals, ratio, (-MOST, MOST), crossed)
    (estimate,) = intervals([quantity], Resamples(n_raters, seed=seed))
    return (estimate.low, estimate.high) if estimate else (None, None)


def _grades(graded: Sequence[_Graded], dimension: str) -> Floats:
    """Raters by responses; NaN where a rater did not grade one."""
    raters = {name: row for row, name in enumerate(sorted({one.answer.participant for one in graded}))}
    responses: dict[tuple[str, int], int] = {}
    cells = []
    for one in graded:
        for place, grade in enumerate(one.answer.ratings[dimension]):
            column = responses.setdefault((one.item.id, place), len(responses))
            cells.append((raters[one.answer.participant], column, grade))
    table = np.full((len(raters), len(responses)), np.nan)
    for row, column, grade in cells:
        table[row, column] = np.nan if grade is None else grade
    return table


def _equal(low: float | None, high: float | None, margin: float) -> Verdict:
    if low is None or high is None:
        return "open"
    if -margin < low and high < margin:
        return "equal"
    return "not equal" if low > margin or high < -margin else "open"


def _better(low: float | None, high: float | None) -> Verdict:
    if low is None or high is None:
        return "open"
    return "better" if low > 0 else "not better" if high <= 0 else "open"


def _sentence(
    dimension: str, mean: float, low: float | None, high: float | None, verdict: Verdict, margin: float
) -> str:
    name, grades = dimension.capitalize(), f"{figure(mean, sign=True)} grades"
    if low is None:
        return f"{name} is open: an interval needs two raters. The preferred response differs by {grades}."
    numbers = f"{grades} (95% {figure_interval(low, high, sign=True)})"
    limit = f"the margin of {margin:g}" if dimension in GENERAL else "zero"
    words: dict[Verdict, str] = {
        "equal": f"{name} is equal within {margin:g}: the preferred response differs by {numbers}.",
        "not equal": f"{name} is not equal: the preferred response differs by {numbers}, more than {margin:g}.",
        "better": f"{name}: the preferred response is better, by {numbers}.",
        "not better": f"{name}: the preferred response is not better; it differs by {numbers}.",
        "open": f"{name} is open: the preferred response differs by {numbers}, and the interval holds {limit}.",
    }
    return words[verdict]


def _passed(verdicts: Sequence[Verdict]) -> bool | None:
    if any(verdict in ("not equal", "not better") for verdict in verdicts):
        return False
    return True if all(verdict in ("equal", "better") for verdict in verdicts) else None


def _conclusion(passed: bool | None, dimensions: Sequence[Dimension]) -> str:
    if passed:
        return "The benchmark measures personal fit: both responses are equally good in general, and one fits better."
    if passed is None:
        missing = [name for name in DIMENSIONS if name not in {one.dimension for one in dimensions}]
        named = [one.dimension for one in dimensions if one.verdict == "open"] + missing
        return f"These answers do not settle it yet: {', '.join(named)} {'is' if len(named) == 1 else 'are'} open."
    unequal = [one.dimension for one in dimensions if one.verdict == "not equal"]
    reasons = [f"the responses differ in {', '.join(unequal)}"] if unequal else []
    for one in dimensions:
        if one.verdict == "not better":
            reasons.append(f"the preferred one fits no better ({percent(one.higher)} of the answers grade it higher)")
    return f"The benchmark does not measure personal fit alone: {', and '.join(reasons)}."


def _to_review(graded: dict[str, list[_Graded]], margin: float) -> tuple[str, ...]:
    named: set[str] = set()
    for dimension, answers in graded.items():
        by_item: dict[str, list[float]] = defaultdict(list)
        for one in answers:
            by_item[one.item.id].append(one.difference)
        for item, differences in by_item.items():
            mean = fmean(differences)
            wrong = mean <= 0 if dimension == PERSONAL else abs(mean) > margin
            if len(differences) >= FEWEST_RATERS and wrong:
                named.add(item)
    return tuple(sorted(named))
