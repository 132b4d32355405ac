"""Paired differences between choices, on the items that both have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from palate.downstream._best_of_n._expectations import Chooser, Expectations
from palate.downstream._best_of_n._results import BonDifference, Choice
from palate.evaluate import Floats, Quantity, Resamples, paired_differences, ratio

About = Literal["over random", "between models", "in context", "in context or best-of-n"]
End = tuple[Chooser, int]
"""Who chooses, among how many."""
Asked = tuple[About, End, End]


def paired_totals(expectations: Expectations, one: End, other: End) -> Floats:
    """By cluster: the sum of differences, and the number of items that both have."""
    first, second = (expectations.choosers[chooser].scores[k] for chooser, k in (one, other))
    both = ~np.isnan(first) & ~np.isnan(second)
    return expectations.totals(np.where(both, first - second, 0.0), both.astype(float))


def differences(expectations: Expectations, asked: Sequence[Asked], resamples: Resamples) -> list[BonDifference]:
    """Every difference asked for, less those with no item in common."""
    totals = [paired_totals(expectations, one, other) for _, one, other in asked]
    kept = [index for index, total in enumerate(totals) if total[:, 1].any()]
    asked, totals = [asked[index] for index in kept], [totals[index] for index in kept]
    return [
        BonDifference(
            about=about,
            one=_choice(*one),
            other=_choice(*other),
            n=int(total[:, 1].sum()),
            users=_users(expectations, one, other),
            difference=found.value,
            low=found.low,
            high=found.high,
            p=found.p,
            q=found.q,
            carried_by=found.carried_by,
        )
        for (about, one, other), total, found in zip(
            asked, totals, paired_differences([Quantity(total, ratio) for total in totals], resamples), strict=True
        )
    ]


def _choice(chooser: Chooser, k: int) -> Choice:
    return Choice(policy_view=chooser.policy_view, chooser=chooser.name, view=chooser.view, k=k)


def _users(expectations: Expectations, one: End, other: End) -> int:
    return expectations.count_users(expectations.choosers[one[0]].has & expectations.choosers[other[0]].has)
