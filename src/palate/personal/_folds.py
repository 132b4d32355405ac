"""Protocols: who is trained on, who is asked, and what may be known of them. No unit crosses a split."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.personal._units import links_of, spread, units
from palate.records import Benchmark, Comparison, Judgement, PalateError, User

LATER = 0.3
"""The part of each user's items, the latest, on which seen users are asked."""
PROTOCOLS = "seen, unseen, leave-out:category or leave-out:FIELD"


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """One split of a benchmark."""

    name: str
    train: tuple[Comparison, ...]
    trained_users: dict[str, User]
    """Those whose choices train the model, each with the history that may be learned from."""
    test: tuple[Comparison, ...]
    test_users: dict[str, User]
    """Everybody, with the history that may be shown: nothing of a test unit, nothing later than it may be."""


def make_folds(benchmark: Benchmark, protocol: str = "seen", *, folds: int = 5, seed: int = 0) -> list[Fold]:
    """Split a benchmark by protocol.

    `seen`: users of the training data, on their later items. `unseen`: users never trained on.
    `leave-out:category`: each category in turn, its users seen elsewhere. `leave-out:FIELD`: each demographic
    group in turn, none of its users trained on.
    """
    if not benchmark.comparisons:
        raise PalateError(f"{benchmark.card.name} has no comparisons to train on")
    if len({item.user_id for item in benchmark.comparisons}) < 2:
        raise PalateError(
            f"{benchmark.card.name} has comparisons of one user only: nothing can be learned of how users differ. "
            "Use palate eval with a view of that user's history instead."
        )
    if folds < 2:
        raise PalateError(f"folds are counted from 2; {folds} was given")
    kind, _, field = protocol.partition(":")
    if kind == "seen" and not field:
        found = _seen(benchmark, folds, seed)
    elif kind == "unseen" and not field:
        found = _unseen(benchmark, _user_folds(benchmark, folds, seed), folds, seed)
    elif protocol == "leave-out:category":
        found = _leave_out_category(benchmark)
    elif kind == "leave-out" and field:
        found = _unseen(benchmark, _groups(benchmark, field), folds, seed)
    else:
        raise PalateError(f"there is no protocol {protocol!r}; there are {PROTOCOLS}")
    found = [fold for fold in found if fold.test and fold.train]
    if not found:
        raise PalateError(
            f"{benchmark.card.name} cannot be split by {protocol!r}: nothing is left to train on once everything "
            "that shares a text, question or twin with a test item is taken away"
        )
    return found


def _seen(benchmark: Benchmark, folds: int, seed: int) -> list[Fold]:
    items = benchmark.comparisons
    later = _later(benchmark)
    unit = units(items)
    part = spread(unit, min(folds, int(unit.max()) + 1), seed)[unit]
    found = []
    for number in range(int(part.max()) + 1):
        test = [item for item, own in zip(items, part, strict=True) if own == number and item.id in later]
        train = [item for item, own in zip(items, part, strict=True) if own != number and item.id not in later]
        held = [item for item, own in zip(items, part, strict=True) if own == number]
        found.append(_fold(benchmark, f"{number + 1}", train, test, held, set(benchmark.users), later))
    return found


def _later(benchmark: Benchmark) -> set[str]:
    """The ids of each user's latest items; without dates or sequence, the file's order is the order."""
    own: dict[str, list[tuple[str, int, int, str]]] = {}
    for place, item in enumerate(benchmark.comparisons):
        own.setdefault(item.user_id, []).append((item.date or "", item.sequence or 0, place, item.id))
    found: set[str] = set()
    for items in own.values():
        count = max(1, round(LATER * len(items))) if len(items) > 1 else 0
        found.update(item[-1] for item in sorted(items)[len(items) - count :])
    return found


def _unseen(benchmark: Benchmark, parts: dict[str, set[str]], folds: int, seed: int) -> list[Fold]:
    """Each part of the users in turn; of units that others share, each part is asked about a share only."""
    items = benchmark.comparisons
    unit = units(items)
    unit_part = spread(unit, min(folds, int(unit.max()) + 1), seed)
    owners: dict[int, set[str]] = {}
    for item, own in zip(items, unit.tolist(), strict=True):
        owners.setdefault(own, set()).add(item.user_id)
    found = []
    for number, (name, users) in enumerate(parts.items()):
        private = {own for own, who in owners.items() if who <= users}
        shared = {own for own in owners if unit_part[own] == number % (int(unit_part.max()) + 1)}
        asked = {
            own
            for item, own in zip(items, unit.tolist(), strict=True)
            if item.user_id in users and own in (private | shared)
        }
        test = [i for i, own in zip(items, unit.tolist(), strict=True) if i.user_id in users and own in asked]
        train = [i for i, own in zip(items, unit.tolist(), strict=True) if i.user_id not in users and own not in asked]
        held = [i for i, own in zip(items, unit.tolist(), strict=True) if own in asked]
        found.append(_fold(benchmark, name, train, test, held, set(benchmark.users) - users, set()))
    return found


def _user_folds(benchmark: Benchmark, folds: int, seed: int) -> dict[str, set[str]]:
    """Users in parts of like numbers of items; users who share a twin stay together."""
    users = sorted({item.user_id for item in benchmark.comparisons})
    place = {user: index for index, user in enumerate(users)}
    owner = {item.id: place[item.user_id] for item in benchmark.comparisons}
    ties = [(owner[item.id], owner[item.twin]) for item in benchmark.comparisons if item.twin in owner]
    rows, columns = zip(*ties, strict=True) if ties else ((), ())
    graph = coo_array((np.ones(len(ties)), (rows, columns)), shape=(len(users), len(users)))
    _, cluster = connected_components(graph, directed=False)
    codes = np.array([cluster[owner[item.id]] for item in benchmark.comparisons])
    part = spread(codes, min(folds, int(codes.max()) + 1), seed)
    parts: dict[str, set[str]] = {}
    for user in users:
        parts.setdefault(f"{part[cluster[place[user]]] + 1}", set()).add(user)
    return dict(sorted(parts.items()))


def _groups(benchmark: Benchmark, field: str) -> dict[str, set[str]]:
    parts: dict[str, set[str]] = {}
    for user in benchmark.users.values():
        value = user.demographics.get(field)
        if isinstance(value, str):
            parts.setdefault(value, set()).add(user.id)
    if len(parts) < 2:
        fields = sorted({name for user in benchmark.users.values() for name in user.demographics})
        raise PalateError(
            f"leave-out:{field} needs a field with two groups or more; {benchmark.card.name} has "
            f"{', '.join(fields) or 'no demographics'}"
        )
    return dict(sorted(parts.items()))


def _leave_out_category(benchmark: Benchmark) -> list[Fold]:
    categories = sorted({item.category for item in benchmark.comparisons if item.category})
    if len(categories) < 2:
        raise PalateError(f"leave-out:category needs two categories or more; {benchmark.card.name} has fewer")
    unit = units(benchmark.comparisons).tolist()
    found = []
    for category in categories:
        asked = {own for item, own in zip(benchmark.comparisons, unit, strict=True) if item.category == category}
        test = [item for item in benchmark.comparisons if item.category == category]
        train = [item for item, own in zip(benchmark.comparisons, unit, strict=True) if own not in asked]
        held = [item for item, own in zip(benchmark.comparisons, unit, strict=True) if own in asked]
        found.append(_fold(benchmark, category, train, test, held, set(benchmark.users), set()))
    return found


def _fold(
    benchmark: Benchmark,
    name: str,
    train: Sequence[Comparison],
    test: Sequence[Comparison],
    held: Sequence[Comparison],
    trained: set[str],
    later: set[str],
) -> Fold:
    """Cut every history down to what has nothing to do with the units that are `held` out."""
    closed = {link for item in held for link in links_of(item)} | {f"item\x00{one}" for one in later}
    users = {user.id: _cut(user, closed) for user in benchmark.users.values()}
    return Fold(
        name=name,
        train=tuple(train),
        trained_users={user: users[user] for user in sorted(trained)},
        test=tuple(test),
        test_users=users,
    )


def _cut(user: User, closed: set[str]) -> User:
    kept = tuple(judgement for judgement in user.judgements if not _touches(judgement, closed))
    return user if len(kept) == len(user.judgements) else msgspec.structs.replace(user, judgements=kept)


def _touches(judgement: Judgement, closed: set[str]) -> bool:
    return any(link in closed for link in links_of(judgement)) or f"item\x00{judgement.id}" in closed
