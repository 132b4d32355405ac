"""Do people agree with each other, and with themselves? Krippendorff's alpha, Cohen's kappa, planned repeats.

People are what is resampled. Alpha and kappa are made of pairs of people, so their intervals come from the jackknife:
how far the number moves when one person is left out gives that person's pseudo-value (Tukey 1958, Arvesen 1969), and
`palate.stats` resamples these as it does any total by person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.collect._records import Answer, Collected, Item
from palate.stats import SHARE, Floats, Resamples, interval, ratio, ratio_interval

Level = Literal["nominal", "ordinal", "interval"]
Codes = NDArray[np.intp]
AT_MOST_ONE = (-np.inf, 1.0)
"""The range of alpha and kappa."""
TIE = -1.0
"""How a tie is coded among choices, which are coded from 0."""
FEWEST, TOO_FEW = 3, "too few people for an interval"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of agreement with its 95% interval over people, or why there is none."""

    value: float | None
    low: float | None
    high: float | None
    people: int
    """Who have an answer that can be compared."""
    items: int
    """Which two people answered; for self-agreement, which came twice to one person."""
    answers: int
    note: str = ""


class AgreementSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How far the answers of a task agree."""

    alpha: Agreement
    """Krippendorff's alpha of the choices; a tie is an answer of its own."""
    alpha_strength: Agreement
    """Ordinal alpha of choice and strength together, from much better to much worse with ties in the middle."""
    kappa: Agreement
    """Cohen's kappa, the mean over all pairs of people, weighted by the items that a pair shares."""
    self_agreement: Agreement
    """The share of planned repeats that were answered as the first time."""


def measure_agreement(collected: Collected, *, task: str | None = None, seed: int = 0) -> AgreementSummary:
    """Agreement between people on items that several of them judged, and of each with themselves.

    Attention checks do not count: everybody should agree on those. Of planned repeats the first answer counts here.
    """
    items = {item.id: item for item in collected.items if item.check is None and len(item.responses) > 1}
    answers = [
        answer
        for answer in collected.answers
        if answer.item in items and (answer.choice is not None or answer.tie) and (task is None or answer.task == task)
    ]
    first = [answer for answer in answers if answer.repeat == 0]
    with_strength = [answer for answer in first if answer.tie or answer.strength is not None]
    pairs = [answer for answer in with_strength if len(items[answer.item].responses) == 2]
    choices = tabulate(first, [code_choice(answer, items[answer.item]) for answer in first])
    strengths = tabulate(pairs, [_signed_strength(answer, items[answer.item]) for answer in pairs])
    return AgreementSummary(
        alpha=alpha_with_interval(choices, "nominal", seed=seed),
        alpha_strength=alpha_with_interval(strengths, "ordinal", seed=seed),
        kappa=kappa_with_interval(choices, seed=seed),
        self_agreement=measure_self_agreement(answers, seed=seed),
    )


def code_choice(answer: Answer, item: Item) -> float:
    """A choice as a category. Responses are numbered by a hash of their text, so that the order of a file, which may
    put the better one first, has no part in what agreement is expected by chance."""
    if answer.choice is None:
        return TIE
    order = sorted(range(len(item.responses)), key=lambda place: _hash(item.responses[place]))
    return float(order.index(answer.choice))


def _signed_strength(answer: Answer, item: Item) -> float:
    if answer.choice is None:
        return 0.0
    return (answer.strength or 1) * (1.0 if code_choice(answer, item) else -1.0)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def tabulate(answers: Sequence[Answer], values: Sequence[float]) -> Floats:
    """A table (people, items) of values, with NaN where somebody was not asked."""
    people = {person: row for row, person in enumerate(sorted({answer.participant for answer in answers}))}
    items = {item: column for column, item in enumerate(sorted({answer.item for answer in answers}))}
    table = np.full((len(people), len(items)), np.nan)
    for answer, value in zip(answers, values, strict=True):
        table[people[answer.participant], items[answer.item]] = value
    return table


def krippendorff_alpha(table: ArrayLike, level: Level = "nominal") -> float | None:
    """Krippendorff's alpha of a table (people, items), with NaN where there is no answer; None where undefined.

    1 is perfect agreement and 0 is what chance gives. It takes any number of people and any pattern of missing
    answers; items with one answer tell nothing and have no part in it (Krippendorff 2011).

    >>> krippendorff_alpha([[1, 1, 2, 2], [1, 1, 2, 2]])
    1.0
    """
    values, counts = _counts(np.asarray(table, dtype=np.float64))
    return _alpha(_coincidences(counts).sum(axis=0), values, level)


def alpha_with_interval(table: Floats, level: Level, *, seed: int = 0) -> Agreement:
    """Alpha with an interval that resamples people."""
    table = _comparable(table)
    values, counts = _counts(table)
    by_item = _coincidences(counts)
    whole = by_item.sum(axis=0)

    def without(person: int) -> float | None:
        columns = np.flatnonzero(~np.isnan(table[person]))
        left = counts[columns].copy()
        left[np.arange(len(columns)), np.searchsorted(values, table[person, columns])] -= 1
        return _alpha(whole - by_item[columns].sum(axis=0) + _coincidences(left).sum(axis=0), values, level)

    return _jackknife(table, _alpha(whole, values, level), without, seed)


def _comparable(table: Floats) -> Floats:
    """Items that two people answered, and people who answered one of those."""
    shared = table[:, np.count_nonzero(~np.isnan(table), axis=0) > 1]
    return np.asarray(shared[~np.isnan(shared).all(axis=1)])


def _counts(table: Floats) -> tuple[Floats, Floats]:
    """The values there are, and how often each item has each of them (items, values)."""
    values = np.unique(table[~np.isnan(table)])
    return values, np.sum(table.T[:, :, None] == values, axis=1, dtype=np.float64)


def _coincidences(counts: Floats) -> Floats:
    """For each item, how often two people's answers coincide (items, values, values), each person counted once."""
    answers = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(counts.shape[1])
    return np.asarray(pairs / np.maximum(answers - 1, 1)[:, None, None])


def _alpha(coincidences: Floats, values: Floats, level: Level) -> float | None:
    totals = coincidences.sum(axis=1)
    n = totals.sum()
    difference = _differences(values, totals, level)
    expected = float((np.outer(totals, totals) * difference).sum())
    if n < 2 or expected <= 0:
        return None
    return 1.0 - float((n - 1) * (coincidences * difference).sum() / expected)


def _differences(values: Floats, totals: Floats, level: Level) -> Floats:
    if level == "nominal":
        return np.asarray(values[:, None] != values[None, :], dtype=np.float64)
    if level == "interval":
        return np.asarray((values[:, None] - values[None, :]) ** 2)
    # the number of answers between two grades, with half of those at either end
    ranks = np.cumsum(totals) - totals / 2
    return np.asarray((ranks[:, None] - ranks[None, :]) ** 2)


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float | None:
    """Cohen's kappa of two people's answers to the same items; None where both always give one and the same answer.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0])
    0.5
    """
    kappa, _ = _pairwise_kappa(np.array([first, second], dtype=np.float64))
    return None if np.isnan(kappa[0, 1]) else float(kappa[0, 1])


def _pairwise_kappa(table: Floats) -> tuple[Floats, Floats]:
    """Kappa of every two people (people, people) and the number of items they share; NaN where undefined."""
    answered = ~np.isnan(table)
    shared = answered.astype(np.float64) @ answered.T.astype(np.float64)
    agree, expected = np.zeros_like(shared), np.zeros_like(shared)
    for value in np.unique(table[answered]):
        gave = (table == value).astype(np.float64)
        agree += gave @ gave.T
        marginal = gave @ answered.T.astype(np.float64)
        expected += marginal * marginal.T
    with np.errstate(all="ignore"):
        observed, by_chance = agree / shared, expected / shared**2
        kappa = (observed - by_chance) / (1 - by_chance)
    kappa[by_chance >= 1 - 1e-12] = np.nan
    return kappa, shared


def kappa_with_interval(table: Floats, *, seed: int = 0) -> Agreement:
    """The mean of Cohen's kappa over all pairs of people (Light 1971), weighted by the items that they share."""
    table = _comparable(table)
    kappa, shared = _pairwise_kappa(table)
    weights = np.where(np.isnan(kappa), 0.0, shared)
    np.fill_diagonal(weights, 0.0)
    sums, totals = (weights * np.nan_to_num(kappa)).sum(axis=1), weights.sum(axis=1)

    def without(person: int) -> float | None:
        left = totals.sum() - 2 * totals[person]
        return float((sums.sum() - 2 * sums[person]) / left) if left > 0 else None

    value = float(sums.sum() / totals.sum()) if totals.sum() > 0 else None
    return _jackknife(table, value, without, seed)


def _jackknife(table: Floats, value: float | None, without: Callable[[int], float | None], seed: int) -> Agreement:
    """The interval from pseudo-values, moved so that their mean is the value itself."""
    people, items = table.shape
    answers = int(np.count_nonzero(~np.isnan(table)))
    amounts = {"people": people, "items": items, "answers": answers}
    if value is None:
        note = "no item has answers of two people" if not items else "all answers are the same"
        return Agreement(value=None, low=None, high=None, **amounts, note=note)
    left_out = [without(person) for person in range(people)]
    known = [one for one in left_out if one is not None]
    if people < FEWEST or len(known) < people:
        return Agreement(value=value, low=None, high=None, **amounts, note=TOO_FEW)
    pseudo = people * value - (people - 1) * np.array(known)
    pseudo += value - pseudo.mean()
    totals = np.stack([pseudo, np.ones(people)], axis=1)
    estimate = interval(totals, ratio, Resamples(people, seed=seed), AT_MOST_ONE)
    low, high = (estimate.low, estimate.high) if estimate else (None, None)
    return Agreement(value=value, low=low, high=high, **amounts)


def measure_self_agreement(answers: Sequence[Answer], *, seed: int = 0) -> Agreement:
    """How often people answer an item that comes again as they did the first time; a tie is an answer like others."""
    first = {(answer.participant, answer.task, answer.item): answer for answer in answers if answer.repeat == 0}
    same: dict[str, list[bool]] = {}
    items: set[str] = set()
    for again in answers:
        before = first.get((again.participant, again.task, again.item))
        if again.repeat and before is not None:
            same.setdefault(again.participant, []).append((before.choice, before.tie) == (again.choice, again.tie))
            items.add(again.item)
    amounts = {"people": len(same), "items": len(items), "answers": sum(map(len, same.values()))}
    if not same:
        return Agreement(value=None, low=None, high=None, **amounts, note="no item came twice to one person")
    kept, asked = ([function(one) for one in same.values()] for function in (sum, len))
    value = sum(kept) / sum(asked)
    estimate = ratio_interval(kept, asked, Resamples(len(same), seed=seed), SHARE) if len(same) >= FEWEST else None
    if estimate is None or estimate.low == estimate.high:  # resamples of people who are alike tell nothing of others
        why = "everybody the same, so no interval" if estimate else TOO_FEW
        return Agreement(value=value, low=None, high=None, **amounts, note=why)
    return Agreement(value=value, low=estimate.low, high=estimate.high, **amounts, note="")
