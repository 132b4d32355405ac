"""What is resampled: users who are independent of each other, and items that several users judged."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from palate.data import Digests, digest_of, text_key
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
    users = codes_in_order(item.user_id for item in items)[1]
    twins = {item.twin for item in items if item.twin}
    place = {item.id: index for index, item in enumerate(items) if item.id in twins}
    linked = [(i, place[item.twin]) for i, item in enumerate(items) if item.twin in place] if place else []
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
    prompts = codes(text_key(item.prompt) for item in items)
    enough = np.count_nonzero(_units(prompts, clusters).judges > 1) >= ENOUGH_PROMPTS
    keys = prompts if enough else codes(map(item_texts, items))
    groups = np.array(codes(item.group or "" for item in items), np.int64)
    grouped = np.array([bool(item.group) for item in items])
    of_groups = np.unique(groups[grouped] * len(items) + prompts[grouped])
    nested = enough and len(of_groups) == len(np.unique(groups[grouped]))
    found = _units(keys if nested else np.where(grouped, len(items) + groups, keys), clusters)
    if found.count < FEWEST_UNITS:
        found = _units(keys, clusters)
    if found.count < FEWEST_UNITS or (resample == "auto" and found.shared < SHARED):
        return None
    return found


def item_texts(item: SharedItem) -> Hashable:
    """What makes two items the same: the prompt, and the responses in any order."""
    return item.prompt, tuple(sorted(set(item.responses)))


def codes(keys: Iterable[object]) -> NDArray[np.int64]:
    """A number for each key, the same for those that are equal, in the order in which they come.

    >>> codes(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    found = array("q")
    digests, encode = Digests(), msgspec.msgpack.Encoder().encode
    for key in keys:
        found.append(digests.add(digest_of(encode(key))))
    return np.frombuffer(found, np.int64)


def distinct(keys: Iterable[object]) -> int:
    """How many different keys there are."""
    return int(codes(keys).max(initial=-1)) + 1


def codes_in_order(names: Iterable[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Each name once, in order, and the place of each in that list.

    >>> codes_in_order(["b", "a", "b"])
    (['a', 'b'], array([1, 0, 1]))
    """
    numbers: dict[str, int] = {}
    found = np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.intp)
    ordered = sorted(numbers)
    places = np.empty(len(ordered), np.intp)
    places[[numbers[name] for name in ordered]] = np.arange(len(ordered))
    return ordered, places[found]


def _units(keys: NDArray[np.int64], clusters: NDArray[np.intp]) -> Units:
    units = _from_zero(keys)
    pairs, cells = np.unique(units * (int(clusters.max()) + 1) + clusters, return_inverse=True)
    judges = np.bincount(pairs // (int(clusters.max()) + 1))
    return Units(units, np.asarray(cells, dtype=np.intp), judges)


def _from_zero(numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """The same numbers from 0 on, in the order in which they come."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    places = np.empty(len(first), np.intp)
    places[np.argsort(first)] = np.arange(len(first))
    return places[inverse]
