"""Which users are independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


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
    users = np.unique([item.user_id for item in items], return_inverse=True)[1]
    place = {item.id: index for index, item in enumerate(items)}
    linked = [(i, place[item.twin]) for i, item in enumerate(items) if item.twin in place]
    n_users = int(users.max()) + 1
    rows, columns = [users[one] for one, _ in linked], [users[other] for _, other in linked]
    graph = coo_array((np.ones(len(linked)), (rows, columns)), shape=(n_users, n_users))
    _, component = connected_components(graph, directed=False)
    return np.asarray(component[users], dtype=np.intp)
