"""How often different users, or one user twice, choose differently between the same responses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from palate.audit._results import Conflicts
from palate.evaluate import SHARE, Quantity, RatedItem, Ratings, Resamples, intervals, ratio

Votes = dict[str, Counter[str]]
"""By user, how often each text was chosen."""


def find_conflicts(ratings: Ratings, seed: int) -> Conflicts:
    """Count shared pairs, conflicts and contradictions, and what they leave for a model that ignores the user."""
    pairs = pair_codes(ratings.items)
    votes: list[Votes] = [defaultdict(Counter) for _ in range(max(pairs) + 1)]
    for pair, item in zip(pairs, ratings.items, strict=True):
        votes[pair][item.user_id][item.responses[item.preferred]] += 1
    shared = [one for one in votes if len(one) > 1]
    judgements = sum(sum(choices.total() for choices in one.values()) for one in shared)
    conflicting = sum(len(set().union(*one.values())) > 1 for one in shared)
    most_frequent = sum(max(sum(one.values(), Counter[str]()).values()) for one in shared)
    again = [choices for one in votes for choices in one.values() if choices.total() > 1]
    agreement, majority = _of_others(ratings, pairs, votes)
    agreed, left_out = intervals([agreement, majority], Resamples(ratings.n_clusters, seed=seed))
    return Conflicts(
        pairs=len(votes),
        shared=len(shared),
        judgements=judgements,
        conflicting=conflicting,
        conflict_share=conflicting / len(shared) if shared else None,
        agreement=agreed,
        majority=most_frequent / judgements if judgements else None,
        left_out_majority=left_out,
        ceiling=(most_frequent + len(ratings.items) - judgements) / len(ratings.items),
        repeated=len(again),
        contradicted=sum(len(choices) > 1 for choices in again),
    )


def pair_codes(items: Sequence[RatedItem]) -> list[int]:
    """A number for each item, the same for the same prompt with the same responses, and for twins.

    The prompt is part of it because *yes* and *no* answer many questions.
    """
    codes: dict[tuple[str, frozenset[str]], int] = {}
    found = {item.id: codes.setdefault((item.prompt, frozenset(item.responses)), len(codes)) for item in items}
    # a twin may be asked in other words; it is still the same choice
    joined = {
        max(found[item.id], found[item.twin]): min(found[item.id], found[item.twin])
        for item in items
        if item.twin in found
    }
    kept: dict[int, int] = {}
    return [kept.setdefault(joined.get(found[item.id], found[item.id]), len(kept)) for item in items]


def _of_others(ratings: Ratings, pairs: Sequence[int], votes: Sequence[Votes]) -> tuple[Quantity, Quantity]:
    """For each item, what the other users who judged the same pair would have chosen."""
    all_votes = [sum(one.values(), Counter[str]()) for one in votes]
    agreement, majority, counted = (np.zeros(len(ratings.items)) for _ in range(3))
    for index, (pair, item) in enumerate(zip(pairs, ratings.items, strict=True)):
        others = all_votes[pair] - votes[pair][item.user_id]
        if not others:
            continue
        chosen, most = others[item.responses[item.preferred]], max(others.values())
        counted[index] = 1
        agreement[index] = chosen / others.total()
        majority[index] = 1 / sum(count == most for count in others.values()) if chosen == most else 0.0
    return (
        Quantity(ratings.totals(agreement, counted), ratio, SHARE),
        Quantity(ratings.totals(majority, counted), ratio, SHARE),
    )
