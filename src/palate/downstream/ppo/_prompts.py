"""Items as the policy is asked them and as the reward model sees their user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from palate.engine import LocalModel
from palate.records import Ask, PalateError, View
from palate.rewards import conversation, fit_view
from palate.runs import Item, Setup
from palate.views import Missing, ViewSpec


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One item, ready to be written for and rated."""

    item: Item
    ids: list[int]
    """What the policy reads: the view in a system turn, then the user's own words."""
    view: View
    """What the reward model sees."""
    policy_view: View
    """What the policy sees, with as much of it as fits."""


def make_prompts(
    setup: Setup[Item], policy: LocalModel, policy_view: ViewSpec, view: ViewSpec, tokens: int
) -> tuple[list[Prompt], Counter[str]]:
    """A prompt for each item, and why items were left out, with how often.

    An item whose view cannot be built is left out. One that leaves no room for an answer is an error.
    """
    reasons: Counter[str] = Counter()
    found = []
    shown, seen = (setup.builder.build(spec, setup.items) for spec in (policy_view, view))
    for item, one, other in zip(setup.items, shown, seen, strict=True):
        if isinstance(one, Missing) or isinstance(other, Missing):
            reasons[one.reason if isinstance(one, Missing) else other.reason] += 1  # type: ignore[union-attr]
            continue
        ask = fitted(policy, item, one, tokens)
        ids = policy.chat.ids(policy.chat.prompt(conversation(ask)))
        found.append(Prompt(item=item, ids=ids, view=other, policy_view=ask.view))
    if not found:
        said = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        raise PalateError(f"no item can be shown with the views {policy_view.name} and {view.name}: {said}")
    return found, reasons


def fitted(policy: LocalModel, item: Item, view: View, tokens: int) -> Ask:
    """What the policy is asked, with as much of the view as its context holds."""
    ask = Ask(id=item.id, prompt=item.prompt, responses=(), view=view)
    if policy.context is None:
        return ask
    room = policy.context - tokens
    ask, _ = fit_view(ask, lambda one: policy.count_tokens(conversation(one)), room)
    needed = policy.count_tokens(conversation(ask)) or 0
    if needed > room:
        raise PalateError(
            f"the prompt of item {item.id!r} has {needed} tokens; the context of {policy.name} has {policy.context}, "
            f"and {tokens} of them are for the answer. Lower --tokens, or leave the item out of the benchmark."
        )
    return ask


def of_step(prompts: Sequence[Prompt], step: int, count: int, seed: int) -> list[Prompt]:
    """The prompts of a step: every prompt once in an order of its own, then every prompt again in another."""
    orders: dict[int, list[int]] = {}
    places = []
    for number in range(step * count, (step + 1) * count):
        again, place = divmod(number, len(prompts))
        if again not in orders:
            orders[again] = np.random.default_rng([seed, again]).permutation(len(prompts)).tolist()
        places.append(orders[again][place])
    return [prompts[place] for place in places]
