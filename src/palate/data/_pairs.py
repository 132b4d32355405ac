"""Pairs from completions: the user's own text against another's of much the same length.

Length alone must not tell which is which, so for every user the own text is the longer one as often as the shorter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import msgspec

from palate.data._history import at_start_of_group
from palate.records import Benchmark, Comparison, Completion, PalateError

WITHIN = 1.25
"""How many times longer, in characters, one text of a pair may be than the other."""


class _Match(msgspec.Struct, frozen=True, kw_only=True):
    """One completion with the text that stands against it."""

    item: Completion
    own: str
    text: str
    other: str | None = None
    """The nearest on the other side: longer where `text` is shorter, shorter where it is longer."""

    @property
    def longer(self) -> int:
        """1 where the own text is the longer one, -1 where it is the shorter, 0 where both are as long."""
        return (len(self.own) > len(self.text)) - (len(self.own) < len(self.text))

    @property
    def cost(self) -> float:
        """How much worse the other side matches."""
        return math.inf if self.other is None else _distance(self.own, self.other) - _distance(self.own, self.text)

    def turned(self) -> _Match:
        """Against the text of the other side."""
        return self if self.other is None else msgspec.structs.replace(self, text=self.other, other=self.text)


def pairs_from_completions(
    benchmark: Benchmark,
    texts: Mapping[str, Sequence[str]] | None = None,
    *,
    items: Sequence[Completion] | None = None,
) -> Benchmark:
    """Every completion that can be matched as a comparison of the same id; the card's notes say what was left out.

    The rejected text is one that somebody else wrote for the same prompt, or one of `texts`, by the id of the
    completion, such as what a policy wrote. Users keep their history: a view shows only what came before the item.
    `items` are the completions to match where these are not all; the others still tell where a group begins.
    """
    items = benchmark.completions if items is None else items
    told = [item for item in items if item.text and item.text.strip()]
    if not told:
        raise PalateError(f"{benchmark.card.name} has no completion with a text of the user's own to make a pair of")
    if texts is None and not any(item.alternatives for item in told):
        raise PalateError(
            f"{benchmark.card.name} has nothing that others wrote for the same prompts; let a policy write it: "
            f"palate data convert {benchmark.card.name} FOLDER --pairs --rejected-by smollm2"
        )
    by_user: dict[str, list[_Match]] = {}
    for item in told:
        found = _match(item, item.alternatives if texts is None else texts.get(item.id, ()))
        if found is not None:
            by_user.setdefault(item.user_id, []).append(found)
    each = [_balanced(matches) for matches in by_user.values()]
    kept = {match.item.id: match for matches in _evened(each) for match in matches}
    if not kept:
        raise PalateError(
            f"{benchmark.card.name}: of {len(told)} texts none has another within {WITHIN:g} times its length to stand "
            "against it"
        )
    matched = sum(map(len, by_user.values()))
    begun = {item.id: item for item in at_start_of_group(benchmark.completions)}
    comparisons = tuple(_comparison(kept[item.id], begun[item.id]) for item in told if item.id in kept)
    users = {item.user_id for item in comparisons}
    return Benchmark(
        card=msgspec.structs.replace(
            benchmark.card,
            name=f"{benchmark.card.name}-pairs",
            notes=(
                *benchmark.card.notes,
                f"{len(kept)} pairs from {len(items)} completions: the user's own text against "
                f"{'another' if texts is None else 'a policy'}'s, neither more than {WITHIN:g} times as long as the "
                "other, and for each user the own text the longer one as often as the shorter",
                f"left out: {len(items) - len(told)} without an own text, {len(told) - matched} "
                f"without a match in length, {matched - len(kept)} to keep the balance, "
                f"{len(benchmark.comparisons)} comparisons that the benchmark has itself",
            ),
        ),
        users={id: user for id, user in benchmark.users.items() if id in users},
        comparisons=comparisons,
    )


def _distance(one: str, other: str) -> float:
    return abs(math.log(len(one) / len(other)))


def _match(item: Completion, texts: Sequence[str]) -> _Match | None:
    """The nearest text in length, and beside it the nearest on the other side."""
    own = item.text or ""
    words = own.split()
    near = sorted(
        (text for text in dict.fromkeys(texts) if text.strip() and text.split() != words),
        key=lambda text: (_distance(own, text), text),
    )
    near = [text for text in near if _distance(own, text) <= math.log(WITHIN) + 1e-9]
    if not near:
        return None
    above = len(near[0]) > len(own)
    opposite = (text for text in near if (len(text) < len(own) if above else len(text) > len(own)))
    other = next(opposite, None) if len(near[0]) != len(own) else None
    return _Match(item=item, own=own, text=near[0], other=other)


def _balanced(matches: Sequence[_Match]) -> list[_Match]:
    """As many longer as shorter, or one more: first the cheapest are turned, then the worst matched dropped."""
    over = sum(match.longer for match in matches)
    majority = [match for match in matches if match.longer * over > 0]
    turned = {match.item.id for match in _turnable(majority)[: abs(over) // 2]}
    fixed = [match for match in majority if match.item.id not in turned]
    dropped = {match.item.id for match in _worst_first(fixed)[: max(0, abs(over) - 2 * len(turned) - 1)]}
    return _changed(matches, turned, dropped)


def _evened(each: Sequence[Sequence[_Match]]) -> list[list[_Match]]:
    """The same over all users: of those with one too many on the side that leads, some turn one or drop one."""
    lead = sum(match.longer for matches in each for match in matches)
    odd = [matches for matches in each if sum(match.longer for match in matches) * lead > 0]
    majority = [[match for match in matches if match.longer * lead > 0] for matches in odd]
    best = [one[0] for matches in majority if (one := _turnable(matches))]
    turned = {match.item.id for match in _turnable(best)[: abs(lead) // 2]}
    fixed = [_worst_first(one)[0] for one in majority if not turned & {match.item.id for match in one}]
    dropped = {match.item.id for match in _worst_first(fixed)[: max(0, abs(lead) - 2 * len(turned) - 1)]}
    return [_changed(matches, turned, dropped) for matches in each]


def _turnable(matches: Sequence[_Match]) -> list[_Match]:
    return sorted((one for one in matches if one.other is not None), key=lambda one: (one.cost, one.item.id))


def _worst_first(matches: Sequence[_Match]) -> list[_Match]:
    return sorted(matches, key=lambda match: (-_distance(match.own, match.text), match.item.id))


def _changed(matches: Sequence[_Match], turned: set[str], dropped: set[str]) -> list[_Match]:
    kept = [match for match in matches if match.item.id not in dropped]
    return [match.turned() if match.item.id in turned else match for match in kept]


def _comparison(match: _Match, item: Completion) -> Comparison:
    """The pair in an order that depends on the item's id alone, standing where the item does."""
    first = hashlib.sha256(item.id.encode("utf-8", "surrogatepass")).digest()[0] % 2
    responses = (match.own, match.text) if first == 0 else (match.text, match.own)
    return Comparison(
        id=item.id,
        user_id=item.user_id,
        prompt=item.prompt,
        responses=responses,
        preferred=first,
        category=item.category,
        group=item.group,
        date=item.date,
        sequence=item.sequence,
        privileged=item.privileged,
    )
