"""Paired differences between choices, on the items that both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from palate.downstream._personal import ANYWHERE, SCORE, Against, PersonalGain, against, personal_gains
from palate.downstream.best_of_n._expectations import Chooser, Expectations
from palate.downstream.best_of_n._results import BestOfNDifference, Choice
from palate.stats import Floats, Resamples, tested

About = Literal["over random", "between models", "in context", "in context or best-of-n"]
End = tuple[Chooser, int]
"""Who chooses, among how many."""
Asked = tuple[About, End, End]


def difference(expectations: Expectations, one: End, other: End) -> Floats:
    """An item each, nan where not both have it."""
    first, second = (expectations.choosers[chooser].scores[k] for chooser, k in (one, other))
    return np.asarray(first - second)


def differences(
    expectations: Expectations, asked: Sequence[Asked], resamples: Resamples
) -> tuple[list[BestOfNDifference], list[PersonalGain]]:
    """Every difference asked for, less those with no item in common; and what the user's own view brought.

    The false discovery rate is held over both together.
    """
    personal = list(_personal(expectations))
    columns = [(difference(expectations, one, other), ANYWHERE) for _, one, other in asked]
    columns += [one.column for one in personal]
    found = tested(columns, expectations.clusters, expectations.users, resamples)
    plain = [
        BestOfNDifference(about=about, one=_choice(*one), other=_choice(*other), **msgspec.structs.asdict(test))
        for (about, one, other), test in zip(asked, found, strict=False)
        if test is not None
    ]
    return plain, personal_gains(personal, found[len(asked) :])


def _personal(expectations: Expectations) -> Iterator[Against]:
    """At the largest k, for each policy view and reward model; and of what the policy itself sees, for one sample."""
    settings = expectations.settings
    top, several = settings.steps[-1], len(settings.policy_views) > 1
    shows = {view.name: expectations.seen.shows(view.name) for view in settings.views}
    for policy_view in (view.name for view in settings.policy_views):
        for model in settings.reward_models:
            columns = {
                one.view or "": expected.scores[top]
                for one, expected in expectations.choosers.items()
                if (one.policy_view, one.kind, one.name) == (policy_view, "model", model.label)
            }
            who = f"best of {top} by {model.label}" + (f" (policy sees {policy_view})" if several else "")
            yield from against(who, SCORE, columns, settings.views, shows)
    alone = {
        one.policy_view: expected.scores[settings.steps[0]]
        for one, expected in expectations.choosers.items()
        if one.kind == "random"
    }
    shown = {view.name: expectations.policy_saw(view.name) for view in settings.policy_views}
    yield from against("the policy alone", SCORE, alone, settings.policy_views, shown)


def _choice(chooser: Chooser, k: int) -> Choice:
    return Choice(policy_view=chooser.policy_view, chooser=chooser.name, view=chooser.view, k=k)
