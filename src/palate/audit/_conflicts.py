"""How often different users, or one user twice, choose differently between the same responses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.audit._benchmark_results import Conflicts, SelfAgreement
from palate.evaluation import RatedItem, Ratings
from palate.stats import GAIN, SHARE, Floats, Quantity, Resamples, intervals, ratio

SHUFFLES = 1_999

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
        twins=len(
            {pair for pair, item in zip(pairs, ratings.items, strict=True) if item.twin and len(votes[pair]) > 1}
        ),
        error_rate=_error_rate(agreed.value) if agreed else None,
        self_agreement=measure_self_agreement(ratings, pairs, seed),
    )


def _error_rate(agreement: float) -> float | None:
    """How often judges would have to err who all want the same of a pair, to agree no more than this.

    >>> round(_error_rate(0.85**2 + 0.15**2), 3)
    0.15
    """
    return float((1 - np.sqrt(2 * agreement - 1)) / 2) if agreement >= 0.5 else None


def measure_self_agreement(
    ratings: Ratings, pairs: Sequence[int], seed: int, shuffles: int = SHUFFLES
) -> SelfAgreement | None:
    """On pairs that somebody judged again and others judged too: do people agree with themselves more than with others?

    If everybody wants the same of a pair and only errs, one's own second judgement is like another person's, so that
    people can be exchanged within the pair. None where there is no such pair.
    """
    codes = np.array(pairs, dtype=np.intp)
    cases = codes * (ratings.users.max() + 1) + ratings.users  # one person's judgements of one pair
    _, case, made = np.unique(cases, return_inverse=True, return_counts=True)
    again = (made[case] > 1) & (np.bincount(codes)[codes] > made[case])
    rows = np.flatnonzero(np.isin(codes, codes[again]))
    if not len(rows):
        return None
    rows = rows[np.argsort(codes[rows], kind="stable")]
    pair = np.unique(codes[rows], return_inverse=True)[1]
    _, first, case, made = np.unique(cases[rows], return_index=True, return_inverse=True, return_counts=True)
    chosen = np.array([_place(ratings.items[int(row)]) for row in rows], dtype=np.intp)
    width = int(chosen.max()) + 1
    everybody = np.bincount(pair * width + chosen, minlength=(pair.max() + 1) * width).reshape(-1, width)[pair[first]]
    repeated = (made > 1) & (everybody.sum(axis=1) > made)

    def agreement(chosen: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """With themself, and with others, by case that is repeated."""
        own = np.bincount(case * width + chosen, minlength=len(made) * width).reshape(-1, width)[repeated]
        others, times = everybody[repeated] - own, made[repeated]
        with_self = (np.sum(own**2, axis=1) - times) / (times * (times - 1))
        return with_self, np.sum(own * others, axis=1) / (times * others.sum(axis=1))

    with_self, with_others = agreement(chosen)
    random = np.random.default_rng(seed)
    drawn = [agreement(chosen[np.argsort(random.random(len(rows)) + pair)]) for _ in range(shuffles)]
    differences = np.array([float(np.mean(one - other)) for one, other in drawn])
    observed = float(np.mean(with_self - with_others))
    columns = np.zeros((2, len(ratings.items)))
    columns[:, rows[first][repeated]] = with_self - with_others, np.ones(len(with_self))
    more = intervals([Quantity(ratings.totals(*columns), ratio, GAIN)], Resamples(ratings.n_clusters, seed=seed))[0]
    return SelfAgreement(
        n=len(with_self),
        users=len(np.unique(ratings.users[rows[first][repeated]])),
        own=float(with_self.mean()),
        others=float(with_others.mean()),
        low=more.low if more else None,
        high=more.high if more else None,
        p=float((np.count_nonzero(differences >= observed - 1e-12) + 1) / (shuffles + 1)),
        q=1.0,
    )


def _place(item: RatedItem) -> int:
    """The chosen text among the responses in an order that does not depend on how they are listed."""
    return sorted(item.responses).index(item.responses[item.preferred])


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
