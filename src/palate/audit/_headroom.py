"""How much a model could gain by knowing the person: shared taste, personal taste and self-contradiction.

What a person wants of a pair is, in the model, the sum of three normal parts: what everybody wants of it (shared),
what this person wants beside that (personal), and what changes from one time to the next (noise). Two judgements
agree as often as the signs of two normal numbers that are correlated by r, which is 1/2 + asin(r) / pi (Sheppard
1899). Two people's share the first part, so their agreement tells the shared part; two judgements of one person share
the first two, so repeats tell the personal part. Who knew the shared part would be right 1/2 + asin(sqrt(r)) / pi of
the time, with r the correlation between people: the ceiling of an impersonal model. With r the correlation between
repeats it is the ceiling of any model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.audit._benchmark_results import Attained, Headroom
from palate.audit._conflicts import pair_codes
from palate.evaluation import Ratings
from palate.stats import GAIN, SHARE, Estimate, Floats, Quantity, Resamples, Statistic, intervals

FEWEST = 10
"""Shared or repeated judgements below which nothing is estimated."""
SHARED, AGAIN = ("shared", "impersonal_ceiling"), ("noise", "ceiling")
"""What is worked out from how often people agree with others, and with themselves."""


def measure_headroom(ratings: Ratings, scores: Sequence[tuple[str, str, Floats]], seed: int) -> Headroom:
    """Split the choices between two responses; `scores` are credits of the items, by model and view.

    Where nobody ever contradicts themself, second judgements may be copies of the first, and count for nothing.
    """
    columns = _agreements(ratings)
    others, own = (float(columns[place].sum()) for place in (1, 3))
    copies = own > 0 and bool(np.all(columns[2][columns[3] > 0] == 1))
    enough_others, enough_own = others >= FEWEST, own >= FEWEST and not copies
    parts: dict[str, tuple[Statistic, tuple[float, float]]] = {}
    if enough_others:
        parts |= {"with_others": (_mean(0), SHARE), "shared": (_correlation_of(0), SHARE)}
        parts["impersonal_ceiling"] = (_ceiling_of(0), SHARE)
    if enough_own:
        parts |= {"with_self": (_mean(2), SHARE), "noise": (lambda totals: 1 - _correlation_of(2)(totals), SHARE)}
        parts["ceiling"] = (_ceiling_of(2), SHARE)
    both = enough_others and enough_own
    if both:
        parts["personal"] = (lambda totals: _correlation_of(2)(totals) - _correlation_of(0)(totals), GAIN)
        parts["attainable"] = (_attainable, GAIN)
    quantities = [
        ratings.quantity(*columns, statistic=statistic, within=within) for statistic, within in parts.values()
    ]
    scored = [ratings.scored_columns(credits) for _, _, credits in scores] if both else []
    quantities += [
        Quantity(base.totals, _attained, (-np.inf, np.inf), base.crossed)
        for base in (ratings.quantity(*columns, *pair, within=SHARE) for pair in scored)
    ]
    estimates = intervals(quantities, Resamples(ratings.n_clusters, seed=seed))
    named = dict(zip(parts, estimates, strict=False))
    for place, agreement, transformed in ((0, "with_others", SHARED), (2, "with_self", AGAIN)):
        agreed = named.get(agreement)
        if agreed is not None and agreed.value <= 0.5:
            named |= {name: _at_the_edge(parts[name][0], agreed, place) for name in transformed}
    again = named.get("with_self")
    sure = max(0.0, 2 * again.value - 1) if again else 0.0
    return Headroom(
        shared_judgements=int(others),
        repeats=int(own),
        with_others=named.get("with_others"),
        with_self=again,
        shared=named.get("shared"),
        personal=named.get("personal"),
        noise=named.get("noise"),
        impersonal_ceiling=named.get("impersonal_ceiling"),
        ceiling=named.get("ceiling"),
        ceiling_at_least=(1 + sure) / 2 if again else None,
        ceiling_at_most=float(1 + np.sqrt(sure)) / 2 if again else None,
        attainable=named.get("attainable"),
        scores=[
            Attained(rm=rm, view=view, accuracy=float(np.nanmean(credits)), share=estimate)
            for (rm, view, credits), estimate in zip(scores, estimates[len(parts) :], strict=False)
        ],
        unknown=_unknown(ratings, int(others), int(own), copies=copies),
    )


def _unknown(ratings: Ratings, others: int, own: int, *, copies: bool) -> list[str]:
    found = []
    if not any(len(item.responses) == 2 for item in ratings.items):
        return ["Headroom is estimated from choices between two responses, and there are none."]
    if others < FEWEST:
        found.append(
            f"Shared taste cannot be told: {others} judgements are of pairs that somebody else judged too. Let two or "
            "more people judge the same pairs."
        )
    if own < FEWEST:
        found.append(
            f"Personal taste cannot be told from self-contradiction: {own} pairs were judged twice by the same person. "
            "Ask some people some pairs again, after a while."
        )
    elif copies:
        found.append(
            f"Personal taste cannot be told: each of {own} pairs that were judged again got the same answer, as copies "
            "would."
        )
    return found


def _agreements(ratings: Ratings) -> list[Floats]:
    """Four columns of items: agreement with others and whether there are any, with oneself and whether asked again."""
    pairs = np.array(pair_codes(ratings.items), dtype=np.intp)
    side = np.array([_side(item.responses, item.preferred) for item in ratings.items], dtype=np.intp)
    columns = [np.zeros(len(side)) for _ in range(4)]
    two = np.array([len(item.responses) == 2 for item in ratings.items])
    rows = np.flatnonzero(two)
    if not len(rows):
        return columns
    votes = _counts(pairs[rows], side[rows], int(pairs.max()) + 1)
    case = np.unique(pairs * (int(ratings.users.max()) + 1) + ratings.users, return_inverse=True)[1]
    own = _counts(case[rows], side[rows], int(case.max()) + 1)
    others = votes[pairs[rows]] - own[case[rows]]
    asked = others.sum(axis=1)
    columns[0][rows] = others[np.arange(len(rows)), side[rows]] / np.maximum(asked, 1)
    columns[1][rows] = asked > 0
    times = own.sum(axis=1)
    first = rows[np.unique(case[rows], return_index=True)[1]]
    first = first[times[case[first]] > 1]
    made = times[case[first]]
    columns[2][first] = ((own[case[first]] ** 2).sum(axis=1) - made) / (made * (made - 1))
    columns[3][first] = 1.0
    return columns


def _side(responses: Sequence[str], preferred: int) -> int:
    """0 or 1 by the alphabet, however the responses are listed."""
    return int(responses[preferred] != min(responses))


def _counts(codes: NDArray[np.intp], sides: NDArray[np.intp], size: int) -> Floats:
    return np.bincount(codes * 2 + sides, minlength=2 * size).reshape(-1, 2).astype(np.float64)


def _mean(place: int) -> Statistic:
    return lambda totals: np.asarray(totals[..., place] / totals[..., place + 1])


def _correlation_of(place: int) -> Statistic:
    """From how often two judgements agree, how far what was wanted goes together; at least 0."""
    return lambda totals: np.sin(np.pi * np.maximum(_mean(place)(totals) - 0.5, 0.0))


def _ceiling_of(place: int) -> Statistic:
    return lambda totals: 0.5 + np.arcsin(np.sqrt(_correlation_of(place)(totals))) / np.pi


def _at_the_edge(statistic: Statistic, agreement: Estimate, place: int) -> Estimate:
    """A number that does not change as long as people agree less than half of the time, so that resamples show no
    spread: its interval is worked out from that of the agreement."""
    totals = np.zeros((3, 4))
    totals[:, place] = agreement.value, agreement.low, agreement.high
    totals[:, place + 1] = 1
    value, *ends = statistic(totals).tolist()
    return Estimate(value, min(ends), max(ends))


def _attainable(totals: Floats) -> Floats:
    return np.asarray(_ceiling_of(2)(totals) - _ceiling_of(0)(totals))


def _attained(totals: Floats) -> Floats:
    return np.asarray((_mean(4)(totals) - _ceiling_of(0)(totals)) / _attainable(totals))
