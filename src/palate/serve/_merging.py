"""Asks about the same user and prompt become one, so that a profile is read once for all who asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palate.records import Ask, Rating, RewardModel
from palate.rewards import rate

MOST_CHARACTERS = 65_536
"""Of the responses in one merged ask: more would not fit one pass of a model on a GPU."""


def rate_together(model: RewardModel, asks: Sequence[Ask]) -> list[Rating]:
    """What `rate` gives, with asks merged that show the same view and prompt.

    Only for models that say `pointwise = True`: their score for a response depends on view, prompt and that
    response alone. A merged rating counts only where it is plain scores. If it has a note, say that the longest
    response left less room for the view, or no scores at all, each ask is rated alone.
    """
    if not getattr(model, "pointwise", False):
        return rate(model, asks)
    groups = _groups(asks)
    found: dict[int, Rating] = {}
    merged = rate(model, [_merged([asks[index] for index in group]) for group in groups])
    for group, rating in zip(groups, merged, strict=True):
        found.update(_split(asks, group, rating))
    alone = [index for index in range(len(asks)) if index not in found]
    if alone:
        found.update(zip(alone, rate(model, [asks[index] for index in alone]), strict=True))
    return [found[index] for index in range(len(asks))]


def _groups(asks: Sequence[Ask]) -> list[list[int]]:
    groups: list[list[int]] = []
    open_groups: dict[object, tuple[list[int], int]] = {}
    for index, ask in enumerate(asks):
        size = sum(map(len, ask.responses))
        group, held = open_groups.get(_shared(ask, index), ([], 0))
        if not group or held + size > MOST_CHARACTERS:
            group, held = [], 0
            groups.append(group)
        group.append(index)
        open_groups[_shared(ask, index)] = group, held + size
    return groups


def _shared(ask: Ask, index: int) -> object:
    """Equal for asks that may be merged; where the order of the responses was recorded, none may."""
    if ask.shown is not None:
        return index
    parts = tuple((part.kind, part.text, part.content, part.id) for part in ask.view.parts)
    return ask.view.name, ask.view.user_id, ask.view.by_name, parts, ask.prompt


def _merged(asks: Sequence[Ask]) -> Ask:
    if len(asks) == 1:
        return asks[0]
    return msgspec.structs.replace(asks[0], responses=tuple(text for ask in asks for text in ask.responses))


def _split(asks: Sequence[Ask], group: Sequence[int], rating: Rating) -> dict[int, Rating]:
    if len(group) == 1:
        return {group[0]: rating}
    if rating.scores is None or rating != Rating(rating.scores):
        return {}
    scores = iter(rating.scores)
    return {index: Rating([next(scores) for _ in asks[index].responses]) for index in group}
