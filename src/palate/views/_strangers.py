"""Whose profile stands in for a user's own in the `swapped` control."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from palate.records import Benchmark
from palate.views._history import Item


class Strangers:
    """A ring of users in seeded order for each category; a user's stranger is the next one on it.

    A stranger shares the item's category where somebody does, so that the control differs in the
    person and not merely in the subject; and is never somebody who answers a twin of the user's items.
    """

    def __init__(self, benchmark: Benchmark, *, seed: int) -> None:
        self._seed = seed
        items: list[Item] = [*benchmark.comparisons, *benchmark.completions]
        owners = {item.id: item.user_id for item in items}
        self._twins: dict[str, set[str]] = {}
        members: dict[str | None, set[str]] = {None: set(benchmark.users)}
        for item in items:
            if item.category is not None:
                members.setdefault(item.category, set()).add(item.user_id)
        for comparison in benchmark.comparisons:
            if comparison.twin in owners:
                self._twins.setdefault(comparison.user_id, set()).add(owners[comparison.twin])
        self._rings = {category: sorted(users, key=self._place) for category, users in members.items()}
        self._index = {
            category: {user: index for index, user in enumerate(ring)} for category, ring in self._rings.items()
        }

    def of(self, item: Item) -> Iterator[str]:
        """Strangers for this item, the first choice first."""
        avoided = self._twins.get(item.user_id, set()) | {item.user_id}
        seen: set[str] = set()
        for category in dict.fromkeys((item.category, None)):
            ring = self._rings.get(category, [])
            start = self._index.get(category, {}).get(item.user_id, -1) + 1
            for user in ring[start:] + ring[:start]:
                if user not in avoided and user not in seen:
                    seen.add(user)
                    yield user

    def _place(self, user_id: str) -> bytes:
        return hashlib.sha256(f"{self._seed}\x00{user_id}".encode("utf-8", "surrogatepass")).digest()
