"""What is resampled: users who are independent of each other, and items that several users judged."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.data import text_key
from palate.records import PalateError
from palate.stats._intervals import Crossed, Floats, cluster_totals

Resample = Literal["auto", "users", "users-and-items"]
SHARED = 0.1
"""Where at least this part of the judgements is of units that several users judged, `auto` resamples items too."""
FEWEST_UNITS = 5
"""From fewer units nothing can be said about new ones."""
ENOUGH_PROMPTS = 10
"""Where several users judged at least this many prompts, prompts are questions and not instructions."""


class OfUser(Protocol):
    """An item that belongs to a user, and perhaps has a twin that belongs to another."""

    @property
    def id(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def twin(self) -> str | None: ...


def independent_clusters(items: Sequence[OfUser]) -> NDArray[np.intp]:
    """A code for each item's user, the same for users who share twins: they are not independent."""
    if not items:
        raise PalateError(
            "this holds no items, so there is nothing to say: the people that it was about may all be erased. "
            "Delete the folder, or make it again"
        )
    users = np.unique([item.user_id for item in items], return_inverse=True)[1]
    place = {item.id: index for index, item in enumerate(items)}
    linked = [(i, place[item.twin]) for i, item in enumerate(items) if item.twin in place]
    n_users = int(users.max()) + 1
    rows, columns = [users[one] for one, _ in linked], [users[other] for _, other in linked]
    graph = coo_array((np.ones(len(linked)), (rows, columns)), shape=(n_users, n_users))
    _, component = connected_components(graph, directed=False)
    return np.asarray(component[users], dtype=np.intp)


class SharedItem(Protocol):
    """An item that several users may have judged."""

    @property
    def prompt(self) -> str: ...
    @property
    def responses(self) -> tuple[str, ...]: ...
    @property
    def group(self) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Units:
    """What is resampled besides users: prompts that users have in common, or groups of items, or items.

    What a model gets wrong it gets wrong for a whole question. The question is the prompt where people judge several
    texts for it; a group that the benchmark names, of items that share a question or texts, may be part of it (two
    arguments of a debate) or may hold several prompts, and then it is the unit. Few common prompts may be
    instructions for the whole benchmark; without groups, items are then the same where prompt and responses are.
    """

    codes: NDArray[np.intp]
    """A code for each item's unit."""
    cells: NDArray[np.intp]
    """A code for each item's cluster of users and unit."""
    judges: NDArray[np.intp]
    """How many clusters of users judged each unit."""

    @property
    def count(self) -> int:
        return len(self.judges)

    @property
    def shared(self) -> float:
        """The part of the items whose unit several clusters of users judged."""
        return float(np.mean(self.judges[self.codes] > 1))

    def totals(self, *columns: Floats) -> Crossed:
        """Columns of items, added up by unit and by cell."""
        values = np.stack(columns, axis=1)
        return Crossed(
            cluster_totals(values, self.codes, self.count),
            cluster_totals(values, self.cells, int(self.cells.max()) + 1),
        )


def shared_units(items: Sequence[SharedItem], clusters: NDArray[np.intp], resample: Resample) -> Units | None:
    """The units to resample, or None where users alone are resampled."""
    if resample == "users" or not len(items):
        return None
    prompts = [("prompt", text_key(item.prompt)) for item in items]
    enough = np.count_nonzero(_units(prompts, clusters).judges > 1) >= ENOUGH_PROMPTS
    keys: list[Hashable] = [*prompts] if enough else [item_texts(item) for item in items]
    of_groups = {(item.group, prompt) for item, prompt in zip(items, prompts, strict=True) if item.group}
    nested = enough and len(of_groups) == len({group for group, _ in of_groups})
    found = _units([key if nested else item.group or key for item, key in zip(items, keys, strict=True)], clusters)
    if found.count < FEWEST_UNITS:
        found = _units(keys, clusters)
    if found.count < FEWEST_UNITS or (resample == "auto" and found.shared < SHARED):
        return None
    return found


def item_texts(item: SharedItem) -> Hashable:
    """What makes two items the same: the prompt, and the responses in any order."""
    return item.prompt, frozenset(item.responses)


def _units(keys: Sequence[Hashable], clusters: NDArray[np.intp]) -> Units:
    places: dict[Hashable, int] = {}
    codes = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.intp)
    pairs, cells = np.unique(codes * (int(clusters.max()) + 1) + clusters, return_inverse=True)
    judges = np.bincount(pairs // (int(clusters.max()) + 1))
    return Units(codes, np.asarray(cells, dtype=np.intp), judges)
