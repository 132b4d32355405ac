"""Real answers, without any generator: what the asker accepted against what they left."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from palate.build._plan import Candidates, Plan
from palate.build._records import OfferedAnswer, SelectedItem, Yield
from palate.data import text_key
from palate.records import Comparison, Privileged


def real_comparisons(plan: Plan, items: Sequence[SelectedItem]) -> tuple[list[Comparison], list[Yield]]:
    """One comparison for each question, and why others gave none."""
    why: Counter[str] = Counter()
    offers: dict[str, list[OfferedAnswer]] = {}
    for item in items:
        offered, reason = _offered(item, plan.candidates)
        if reason:
            why[reason] += 1
        else:
            offers[item.id] = offered
    if plan.candidates.others == "closest":
        offers = closest_pairs(offers, plan.seed, balance=plan.candidates.balance)
    pairs = [_comparison(plan, item, offers[item.id]) for item in items if item.id in offers]
    yields = [Yield(stage="answers", came=len(items), went=len(pairs), why=dict(why))]
    pairs = _twins(pairs)
    if plan.candidates.balance:
        balanced = balance_lengths(pairs, plan.seed)
        why = Counter({"so that the longer response is chosen half of the time": len(pairs) - len(balanced)})
        yields.append(Yield(stage="balance", came=len(pairs), went=len(balanced), why=dict(+why)))
        pairs = balanced
    return pairs, yields


def _comparison(plan: Plan, item: SelectedItem, offered: Sequence[OfferedAnswer]) -> Comparison:
    return Comparison(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        responses=tuple(answer.text for answer in offered),
        preferred=0,
        category=item.category,
        group=item.group,
        date=item.date,
        contrast=plan.candidates.kind,
        privileged=Privileged(narrative=item.narrative),
    )


def _offered(item: SelectedItem, candidates: Candidates) -> tuple[list[OfferedAnswer], str]:
    """The accepted answer and the others that may be compared with it; or why there are none."""

    def usable(answer: OfferedAnswer) -> bool:
        return candidates.shortest <= len(answer.text.split()) <= candidates.longest

    accepted = item.answers[0]
    if not usable(accepted):
        return [], f"the accepted answer has fewer than {candidates.shortest} or more than {candidates.longest} words"
    others = [one for one in item.answers[1:] if usable(one) and text_key(one.text) != text_key(accepted.text)]
    if candidates.kind == "divergent":
        others = [one for one in others if one.score is not None and one.score > (accepted.score or 0)]
    return ([accepted, *others], "") if others else ([], "no other answer is within the bounds of length")


def closest_pairs(
    offers: Mapping[str, list[OfferedAnswer]], seed: int, *, balance: bool
) -> dict[str, list[OfferedAnswer]]:
    """The accepted answer with the other that is closest in length.

    To balance, questions that have both a longer and a shorter one are given whichever side has fewer so far.
    """
    pairs: dict[str, list[OfferedAnswer]] = {}
    longer = 0  # accepted answers that are the longer one of their pair, less those that are the shorter one
    sides = {id: _sides(offered) for id, offered in offers.items()}
    both = {id: None for id, (above, below) in sides.items() if balance and above and below}
    for id in [*(id for id in offers if id not in both), *_drawn([*both], len(both), seed)]:
        accepted, (above, below) = offers[id][0], sides[id]
        others = (above if longer > 0 else below) if id in both else [*above, *below]
        other = min(others, key=lambda one: (abs(len(one.text) - len(accepted.text)), one.text))
        longer += 1 if len(accepted.text) > len(other.text) else -1
        pairs[id] = [accepted, other]
    return pairs


def _sides(offered: Sequence[OfferedAnswer]) -> tuple[list[OfferedAnswer], list[OfferedAnswer]]:
    """The others that are longer than the accepted answer, and the rest."""
    size = len(offered[0].text)
    return [one for one in offered[1:] if len(one.text) > size], [one for one in offered[1:] if len(one.text) <= size]


def _twins(pairs: list[Comparison]) -> list[Comparison]:
    """Two users who were offered the same two answers to one question and took different ones."""
    waiting: dict[tuple[str, frozenset[str]], dict[str, list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    twins: dict[str, str] = {}
    for item in pairs:
        offer = (text_key(item.prompt), frozenset(item.responses))
        if len(item.responses) != 2:
            continue
        there = waiting[offer]
        opposite = [
            other
            for chosen, others in there.items()
            if chosen != item.chosen
            for other in others
            if other.user_id != item.user_id
        ]
        if opposite:
            other = opposite[0]
            there[other.chosen].remove(other)
            twins |= {item.id: other.id, other.id: item.id}
        else:
            there[item.chosen].append(item)
    return [
        msgspec.structs.replace(item, twin=twins[item.id], contrast="twins") if item.id in twins else item
        for item in pairs
    ]


def balance_lengths(pairs: Sequence[Comparison], seed: int) -> list[Comparison]:
    """Drop pairs, drawn by the seed, until the longer response is chosen as often as the shorter one.

    Twins balance each other and stay. With more than two responses, the longest is chosen as often as guessing has it.
    """
    free = [item for item in pairs if item.twin is None]
    longest = {item.id for item in free if len(item.chosen) > max(map(len, item.rejected))}
    others = [item.id for item in free if item.id not in longest]
    chance = sum(1 / len(item.responses) for item in free) / len(free) if free else 0.0
    most = round(len(others) * chance / (1 - chance)) if 0 < chance < 1 else 0
    kept = set(_drawn(sorted(longest), most, seed))
    least = round(len(longest) * (1 - chance) / chance) if chance else 0
    kept_others = set(_drawn(others, least, seed))
    return [item for item in pairs if item.twin is not None or item.id in kept or item.id in kept_others]


def _drawn(ids: Sequence[str], most: int, seed: int) -> list[str]:
    return sorted(ids, key=lambda id: hashlib.sha256(f"{seed}\0{id}".encode()).digest())[:most]
