"""How a run's items fall into groups, and which groups must not be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.audit._run_results import Hidden
from palate.evaluate import MOST_GROUPS, RatedItem, Ratings, known_bucket

NOT_GIVEN = "(not given)"

Mask = NDArray[np.bool_]


class Grouping(msgspec.Struct, frozen=True):
    """One field: the value of each item as a code. Items without a value are a group as well, or they would give
    the size of a hidden group away."""

    by: str
    values: list[str]
    codes: NDArray[np.intp]
    of_users: bool
    """Whether every user belongs to one group only."""


def groupings(ratings: Ratings) -> Iterator[Grouping]:
    """Every field with at least two values."""
    names = sorted({name for item in ratings.items for name in item.traits})
    readers: list[tuple[str, Callable[[RatedItem], str | None]]] = [
        ("category", lambda item: item.category),
        ("difficulty", lambda item: item.difficulty),
        ("known", lambda item: None if item.known is None else known_bucket(item.known)),
        *((f"demographics.{name}", lambda item, name=name: item.traits.get(name)) for name in names),
    ]
    for by, read in readers:
        given = [read(item) for item in ratings.items]
        if len({value for value in given if value is not None}) < 2:
            continue
        values, codes = np.unique([NOT_GIVEN if value is None else value for value in given], return_inverse=True)
        of_users = len(set(zip(ratings.users.tolist(), codes.tolist(), strict=True))) == len(
            set(ratings.users.tolist())
        )
        yield Grouping(by, [str(value) for value in values], codes.astype(np.intp), of_users)


def shown_codes(ratings: Ratings, grouping: Grouping, least: int, where: Mask | None = None) -> list[int]:
    """The groups that may be shown, of all items or of some.

    A group of fewer users than the least is hidden. What is hidden must not be had by subtracting the others from
    the whole, so the next smallest is hidden too until at least two groups and the least number of users are.
    """
    inside = np.ones(len(ratings.items), dtype=bool) if where is None else where
    members = {
        code: set(ratings.users[inside & (grouping.codes == code)].tolist()) for code in range(len(grouping.values))
    }
    cells = sorted((code for code in members if members[code]), key=lambda code: len(members[code]))
    hidden = [code for code in cells if len(members[code]) < least]
    while hidden and len(hidden) < len(cells):
        if len(hidden) > 1 and len(set().union(*(members[code] for code in hidden))) >= least:
            break
        hidden.append(cells[len(hidden)])
    return sorted(cells[len(hidden) :])


def hidden_of(ratings: Ratings, grouping: Grouping, shown: list[int], least: int) -> Hidden | None:
    """What is not shown of a field, in numbers that point at nobody."""
    out = ~np.isin(grouping.codes, shown)
    cells = len(np.unique(grouping.codes[out]))
    if not cells:
        return None
    reason = f"fewer than {least} users, or could be told from those"
    if is_nearly_id(grouping):
        reason = f"more than {MOST_GROUPS} values: nearly an id, not a group"
    return Hidden(by=grouping.by, cells=cells, users=ratings.count_users(out), reason=reason)


def is_nearly_id(grouping: Grouping) -> bool:
    """Whether a field has so many values that it names people rather than groups."""
    return len(grouping.values) > MOST_GROUPS
