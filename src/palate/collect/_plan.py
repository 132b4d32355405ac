"""Before the start: how many people, items and repeats it takes to see a gain of a given size.

The same power formula as `palate audit` uses, with what only a plan has to assume: how reliable people are. Whoever
answers an item that comes again as before in a share s of the cases gives the label that they would stand by with a
probability a, where s = a² + (1 - a)². A gain on labels that are right with probability a shrinks by 2a - 1, which is
the square root of 2s - 1. To show a gain in what people want, a plan has to see a smaller one in what they say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy import stats

from palate.audit import CONTRADICTION, CORRELATION
from palate.records import PalateError
from palate.report import Table, points
from palate.stats import DIFFER, UNSEEN_PEOPLE, effective_items, smallest_gain

MOST_PEOPLE = 100_000
ITEMS = (10, 20, 40, 80)
REPEATS = 4
SECONDS = 30.0


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan takes for granted. After a pilot, put in what was measured."""

    differ: float = DIFFER
    """The share of items on which the two models to be compared differ."""
    person_correlation: float = CORRELATION
    """How alike the differences on one person's items are; `palate audit` measures it on a benchmark."""
    item_correlation: float = 0.05
    """How alike different people's differences on one item are; it counts where several people judge an item."""
    self_agreement: float = 1 - CONTRADICTION
    """The share of repeats that are answered as the first time."""
    seconds: float = SECONDS
    """Time for one answer."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges how much."""

    people: int
    items: int
    """Different items for each person."""
    repeats: int = REPEATS
    """How many of these come twice to each person."""
    people_per_item: int = 1
    """How many people judge each item; 1 where nobody shares one."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a design would show."""

    design: Design
    answers: int
    """Of everybody, with repeats."""
    different_items: int
    """That the collection has to hold."""
    effective_items: float
    smallest_gain: float
    """In what people want: found with 80% power by a two-sided test at 5%."""
    smallest_gain_in_answers: float
    """The same in what they say, which is what an evaluation shows."""
    self_agreement_within: float | None
    """The 95% interval of self-agreement reaches about so far on either side; None without repeats."""
    minutes: float
    """For each person."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """For one gain, the people that are needed for each number of items; or what the people there are would show."""

    gain: float
    assumptions: Assumptions
    rows: tuple[Planned, ...]
    impossible: tuple[int, ...]
    """Numbers of items with which no number of people is enough."""


def detectable(design: Design, assumptions: Assumptions | None = None) -> Planned:
    """What a design would show.

    >>> detectable(Design(people=100, items=20)).smallest_gain < detectable(Design(people=50, items=20)).smallest_gain
    True
    """
    assumed = assumptions or Assumptions()
    _check(design, assumed)
    people, items, judges = design.people, design.items, min(design.people_per_item, design.people)
    different = math.ceil(people * items / judges)
    effective = effective_items(
        np.full(people, items), assumed.person_correlation, np.full(different, judges), assumed.item_correlation
    )
    seen = max(0, people - UNSEEN_PEOPLE) / people
    in_answers = smallest_gain(effective * seen, assumed.differ) if seen else 1.0
    kept = math.sqrt(max(0.0, 2 * assumed.self_agreement - 1))
    within = None
    if design.repeats and people > 1:
        variance = assumed.self_agreement * (1 - assumed.self_agreement)
        independent = effective_items(np.full(people, design.repeats), assumed.person_correlation)
        within = float(stats.t.ppf(0.975, people - 1) * math.sqrt(variance / independent))
    return Planned(
        design=design,
        answers=people * (items + design.repeats),
        different_items=different,
        effective_items=effective,
        smallest_gain=min(1.0, in_answers / kept) if kept else 1.0,
        smallest_gain_in_answers=in_answers,
        self_agreement_within=within,
        minutes=(items + design.repeats) * assumed.seconds / 60,
    )


def _check(design: Design, assumed: Assumptions) -> None:
    if design.people < 1 or design.items < 1 or design.repeats < 0 or design.people_per_item < 1:
        raise PalateError(f"cannot plan {design}: people, items and people_per_item are at least 1, repeats at least 0")
    if design.repeats > design.items:
        raise PalateError(f"{design.repeats} repeats of {design.items} items: no more can come twice than there are")
    shares = (assumed.differ, assumed.person_correlation, assumed.item_correlation)
    if not (assumed.differ > 0 and all(0 <= share <= 1 for share in shares) and 0.5 < assumed.self_agreement <= 1):
        raise PalateError("cannot plan: shares and correlations lie between 0 and 1, self-agreement between 0.5 and 1")


def people_needed(
    gain: float,
    items: int,
    *,
    repeats: int = REPEATS,
    people_per_item: int = 1,
    assumptions: Assumptions | None = None,
) -> int | None:
    """The fewest people with whom a gain (0.05 is five points) would probably be seen; None where none are enough."""
    if not 0 < gain < 1:
        raise PalateError(f"a gain of {gain:g}: give a share between 0 and 1, such as 0.05 for five points")

    def enough(people: int) -> bool:
        design = Design(people=people, items=items, repeats=min(repeats, items), people_per_item=people_per_item)
        return detectable(design, assumptions).smallest_gain <= gain

    most = people_per_item
    while not enough(most):
        most *= 2
        if most > MOST_PEOPLE:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def make_plan(
    gain: float,
    *,
    items: Sequence[int] = ITEMS,
    repeats: int = REPEATS,
    people_per_item: int = 1,
    people: int | None = None,
    assumptions: Assumptions | None = None,
) -> Plan:
    """A row for each number of items: the people it takes to see the gain, or with `people` what those would show."""
    assumed = assumptions or Assumptions()
    rows, impossible = [], []
    for count in items:
        crowd = people or people_needed(
            gain, count, repeats=repeats, people_per_item=people_per_item, assumptions=assumed
        )
        if crowd is None:
            impossible.append(count)
            continue
        design = Design(people=crowd, items=count, repeats=min(repeats, count), people_per_item=people_per_item)
        rows.append(detectable(design, assumed))
    return Plan(gain=gain, assumptions=assumed, rows=tuple(rows), impossible=tuple(impossible))


def plan_table(plan: Plan) -> Table:
    """The plan for terminal, Markdown and page."""
    assumed = plan.assumptions
    note = (
        f"Found with 80% power by a two-sided test at 5%. Assumed: two models that differ on {assumed.differ:.0%} of "
        f"the items; people who answer {assumed.self_agreement:.0%} of repeats as the first time; answers of one "
        f"person alike by {assumed.person_correlation:g}, answers to one item by {assumed.item_correlation:g}. "
        "Whoever contradicts themselves hides a part of the gain, so their answers show less of it. Self-agreement: "
        "how far its 95% interval reaches to either side, in points. Run a pilot and put in what you measure."
    )
    if plan.impossible:
        counts = ", ".join(map(str, plan.impossible))
        note = f"With {counts} items a person, no number of people is enough. {note}"
    return Table(
        title=f"To see a gain of {points(plan.gain).removeprefix('+')} points",
        titles=(
            "people", "items\neach", "repeats\neach", "different\nitems", "answers", "minutes\neach",
            "smallest\ngain", "gain seen\nin answers", "self-\nagreement",
        ),
        words=0,
        rows=[
            (
                f"{row.design.people:,}",
                f"{row.design.items:,}",
                f"{row.design.repeats:,}",
                f"{row.different_items:,}",
                f"{row.answers:,}",
                f"{row.minutes:.0f}",
                points(row.smallest_gain).removeprefix("+"),
                points(row.smallest_gain_in_answers).removeprefix("+"),
                "–" if row.self_agreement_within is None else f"±{100 * row.self_agreement_within:.1f}",
            )
            for row in plan.rows
        ],
        note=note,
    )  # fmt: skip
