"""Before collecting: how many people, items and repeats show a gain of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, comb

import msgspec
import numpy as np
from scipy.special import ndtri

from palate.records import PalateError
from palate.report import Document, Note, Section, Table, percent, points
from palate.stats import DIFFER, GAIN, LEVEL, POWER, UNSEEN_PEOPLE, Quantity, Resamples, paired_differences, ratio

ITEMS_A_PERSON = (10, 20, 40, 80)
REPEATS = (1, 3)
CORRELATION = 0.05
"""How alike the differences of one person are taken to be before anything is measured."""
CONTRADICTION = 0.15
"""How often people are taken to choose otherwise when asked again."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """One way of asking that finds the gain."""

    people: int
    items: int
    """Comparisons a person."""
    repeats: int
    """Times that each comparison is asked; the choice made most often is the label."""
    judgements: int
    """In all."""
    seen_gain: float
    """The gain as it shows against labels that are sometimes wrong."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Designs that find a gain of one model over another with a given power, by a two-sided test at 5%."""

    gain: float
    """Of accuracy, against what people really want."""
    power: float
    differ: float
    """Assumed: the share of items on which one of the two models is right and the other wrong."""
    correlation: float
    """Assumed: how alike the differences of one person are (intraclass correlation)."""
    contradiction: float
    """Assumed: how often people choose otherwise when they are asked again."""
    designs: list[Design]


def plan_collection(
    gain: float,
    *,
    items: Sequence[int] = ITEMS_A_PERSON,
    repeats: Sequence[int] = REPEATS,
    power: float = POWER,
    differ: float = DIFFER,
    correlation: float = CORRELATION,
    contradiction: float = CONTRADICTION,
) -> Plan:
    """How many people are needed, for every number of items and repeats.

    >>> [design.people for design in plan_collection(0.05, items=[20], repeats=[1]).designs]
    [137]
    """
    _check(gain, items, repeats, power, differ, correlation, contradiction)
    designs = []
    for times in repeats:
        seen = gain * (1 - 2 * label_error(contradiction, times))
        for own in items:
            independent = _reach(power) ** 2 * differ * (1 + (own - 1) * correlation) / (own * seen**2)
            people = ceil(independent) + UNSEEN_PEOPLE
            designs.append(
                Design(people=people, items=own, repeats=times, judgements=people * own * times, seen_gain=seen)
            )
    return Plan(
        gain=gain,
        power=power,
        differ=differ,
        correlation=correlation,
        contradiction=contradiction,
        designs=designs,
    )


def _reach(power: float) -> float:
    return float(ndtri(1 - LEVEL / 2) + ndtri(power))


def label_error(contradiction: float, repeats: int) -> float:
    """How often the majority of the repeats is not what the person wants, if every judgement errs independently.

    >>> round(label_error(0.18, 1), 2), round(label_error(0.18, 3), 3)
    (0.1, 0.028)
    """
    error = (1 - np.sqrt(1 - 2 * contradiction)) / 2
    wrong = [comb(repeats, k) * error**k * (1 - error) ** (repeats - k) for k in range(repeats + 1)]
    tied = wrong[repeats // 2] / 2 if repeats % 2 == 0 else 0.0
    return float(sum(wrong[repeats // 2 + 1 :]) + tied)


def simulate_power(plan: Plan, design: Design, *, tries: int = 200, seed: int = 0) -> float:
    """How often the test of palate finds the gain, in collections that are drawn as the plan assumes."""
    draw = np.random.default_rng(seed)
    people, own = design.people, design.items
    clusters = np.repeat(np.arange(people), own)
    between = np.sqrt(plan.correlation * plan.differ)
    wrong = label_error(plan.contradiction, design.repeats)
    called = 0
    for _ in range(tries):
        personal = np.clip(plan.gain + draw.normal(0, between, people), -plan.differ, plan.differ)[clusters]
        better = draw.random(len(clusters)) < (plan.differ + personal) / 2 / plan.differ
        differs = draw.random(len(clusters)) < plan.differ
        right = np.where(draw.random(len(clusters)) < wrong, ~better, better)
        difference = np.where(differs, np.where(right, 1.0, -1.0), 0.0)
        totals = np.stack([np.bincount(clusters, weights=difference), np.full(people, float(own))], axis=1)
        [test] = paired_differences([Quantity(totals, ratio, GAIN)], Resamples(people, seed=seed, n_resamples=1_000))
        called += test.p < LEVEL and test.difference > 0
    return called / tries


def _check(
    gain: float,
    items: Sequence[int],
    repeats: Sequence[int],
    power: float,
    differ: float,
    correlation: float,
    contradiction: float,
) -> None:
    for name, value, low, high in (
        ("gain", gain, 0.0, 1.0),
        ("power", power, LEVEL, 1.0),
        ("differ", differ, 0.0, 1.0),
    ):
        if not low < value < high:
            raise PalateError(f"{name} lies between {low:g} and {high:g}, without the ends; {value:g} was given")
    if not 0 <= correlation < 1:
        raise PalateError(f"correlation is at least 0 and less than 1; {correlation:g} was given")
    if not 0 <= contradiction < 0.5:
        raise PalateError(
            f"contradiction is at least 0 and less than 0.5, which is guessing; {contradiction:g} was given"
        )
    if gain >= differ:
        raise PalateError(
            f"a gain of {gain:g} cannot be had by models that differ on {differ:g} of the items; give a larger differ"
        )
    for name, counts in (("items", items), ("repeats", repeats)):
        if not counts or min(counts) < 1:
            raise PalateError(f"{name} are counted from 1; {', '.join(map(str, counts)) or 'none'} was given")


def plan_document(plan: Plan, checked: dict[int, float] | None = None) -> Document:
    """The designs as a table, with how often each found the gain when it was simulated."""
    titles = ["people", "items a\nperson", "repeats", "judgements\nin all", "gain seen"]
    rows = []
    for number, design in enumerate(plan.designs):
        row = [f"{design.people:,}", f"{design.items:,}", f"{design.repeats}", f"{design.judgements:,}"]
        row.append(points(design.seen_gain).removeprefix("+"))
        if checked is not None:
            row.append(percent(checked[number]))
        rows.append(tuple(row))
    if checked is not None:
        titles.append("found when\nsimulated")
    table = Table(titles=tuple(titles), words=0, rows=rows)
    notes = [
        f"For a gain of {points(plan.gain).removeprefix('+')} points with {percent(plan.power)} power, if the two "
        f"models differ on {percent(plan.differ)} of the items, one person's items are alike by {plan.correlation:g}, "
        f"and people choose otherwise {percent(plan.contradiction)} of the time when asked again.",
        "More people are worth more than more items each, and repeats are worth their price only where people often "
        "contradict themselves. Ask some repeats in any case: without them, taste and self-contradiction cannot be "
        "told apart.",
    ]
    return Document(
        name="Plan",
        title="How many people to ask",
        size=f"a gain of {points(plan.gain).removeprefix('+')} points",
        findings=[],
        sections=[
            Section(title="Designs", name="Designs", blocks=[table, *map(Note, notes)], terminal=True),
        ],
    )
