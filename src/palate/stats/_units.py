"""Which items are shared: judged by several users, so that the items are a sample as the users are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from palate.stats._intervals import Crossed, Floats, cluster_totals

Resample = Literal["auto", "users", "users-and-items"]

SHARED = 0.1
"""Where at least this part of the judgements is of units that several users judged, `auto` resamples items too."""
FEWEST_UNITS = 5
"""From fewer units nothing can be said about new ones."""


class Judged(Protocol):
    """An item that several users may have judged."""

    @property
    def prompt(self) -> str: ...
    @property
    def responses(self) -> tuple[str, ...]: ...
    @property
    def group(self) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Units:
    """What is resampled besides users: groups of items where the benchmark names them, and otherwise items.

    A group holds items that must not be split between training and test, since they share a question or texts: what
    a model gets wrong there it gets wrong together. Items without a group are the same where prompt and responses
    are. A common prompt alone is not enough: it may be one instruction for the whole benchmark.
    """

    codes: NDArray[np.intp]
    """A code for each item's unit."""
    cells: NDArray[np.intp]
    """A code for each item's cluster of users and unit."""
    shared: float
    """The part of the items whose unit several clusters of users judged."""

    @property
    def count(self) -> int:
        return int(self.codes.max()) + 1

    def totals(self, *columns: Floats) -> Crossed:
        """Columns of items, added up by unit and by cell."""
        values = np.stack(columns, axis=1)
        return Crossed(
            cluster_totals(values, self.codes, self.count),
            cluster_totals(values, self.cells, int(self.cells.max()) + 1),
        )


def shared_units(items: Sequence[Judged], clusters: NDArray[np.intp], resample: Resample) -> Units | None:
    """The units to resample, or None where users alone are resampled."""
    if resample == "users" or not len(items):
        return None
    grouped = _units([item.group or item_texts(item) for item in items], clusters)
    found = grouped if grouped.count >= FEWEST_UNITS else _units([item_texts(item) for item in items], clusters)
    if found.count < FEWEST_UNITS or (resample == "auto" and found.shared < SHARED):
        return None
    return found


def item_texts(item: Judged) -> Hashable:
    """What makes two items the same: the prompt, and the responses in any order."""
    return item.prompt, frozenset(item.responses)


def _units(keys: Sequence[Hashable], clusters: NDArray[np.intp]) -> Units:
    places: dict[Hashable, int] = {}
    codes = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.intp)
    pairs, cells = np.unique(codes * (int(clusters.max()) + 1) + clusters, return_inverse=True)
    judges = np.bincount(pairs // (int(clusters.max()) + 1))
    return Units(codes, np.asarray(cells, dtype=np.intp), float(np.mean(judges[codes] > 1)))
