"""The exchange format: one user a record, each with the preferences they stated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from palate.data._draft import BenchmarkDraft, FieldError, choice_faults, explain
from palate.data._files import read_records
from palate.data._folder import unread_times
from palate.data._wire import WirePost, WirePreference, WireUser
from palate.records import Card, Comparison, Judgement, User


def read_exchange(files: Iterable[Path], card: Card, source: str, *, extras: bool = False) -> BenchmarkDraft:
    """Every preference becomes a comparison, and a judgement in the history of its user.

    Both carry the same date or place in the list, so that a view for one comparison holds only what
    the user said before it: neither the choice itself nor the reason for it.
    """
    draft = BenchmarkDraft(card=card, source=source)
    for path in files:
        posts: list[WirePost] = []
        preferences: list[WirePreference] = []
        for wire, place in read_records(path, WireUser, draft.faults, extras=extras):
            posts += wire.posts
            preferences += wire.preferences
            try:
                user = _in_order(wire.record())
            except FieldError as problem:
                draft.faults.append(explain(problem, place))
                continue
            draft.users.append((user, place))
            for judgement, preference in zip(user.judgements, wire.preferences, strict=True):
                if not choice_faults(judgement, place):  # a broken judgement is one fault, not two
                    comparison = comparison_of(judgement, user.id, category=preference.category)
                    draft.comparisons.append((comparison, place))
        for dated in (posts, preferences):
            draft.faults += unread_times(path, dated)
    return draft


def comparison_of(
    judgement: Judgement, user_id: str, *, category: str | None = None, group: str | None = None
) -> Comparison:
    """The comparison that asks for what the judgement tells."""
    assert judgement.id is not None
    return Comparison(
        id=judgement.id,
        user_id=user_id,
        prompt=judgement.prompt,
        responses=judgement.responses,
        preferred=judgement.preferred,
        category=category,
        group=group,
        date=judgement.date,
        sequence=judgement.sequence,
    )


def _in_order(user: User) -> User:
    dated = all(judgement.date for judgement in user.judgements)
    judgements = []
    for position, judgement in enumerate(user.judgements):
        sequence = judgement.sequence
        if sequence is None and not dated:
            sequence = position
        id = judgement.id or f"{user.id}-{position}"
        judgements.append(msgspec.structs.replace(judgement, id=id, sequence=sequence))
    return msgspec.structs.replace(user, judgements=tuple(judgements))
