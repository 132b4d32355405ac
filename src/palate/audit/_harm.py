"""Users who are served worse with their profile than without, and how many of them chance would make."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.audit._fairness import Key, profile_change
from palate.audit._run_results import Harm, HarmedUser
from palate.evaluation import Ratings
from palate.runs import Progress
from palate.stats import Floats, false_discovery

FLIPS = 2_000
CLEARLY = -1.96
"""Standard errors. A user's error is that of changes which could as well have gone the other way."""


class _Served(msgspec.Struct, frozen=True):
    """The changes of all users' items, and whose they are."""

    changes: Floats
    users: NDArray[np.intp]
    errors: Floats
    """By user, the root of the sum of squares: what flipping signs does not change."""

    def counts(self, changes: Floats) -> tuple[int, int]:
        """How many users lose at all, and how many clearly, when the changes are these."""
        sums = np.bincount(self.users, weights=changes, minlength=len(self.errors))
        # sums of thirds may miss zero by a hair
        return int(np.count_nonzero(sums < -1e-9)), int(np.count_nonzero(sums < CLEARLY * self.errors - 1e-9))


def measure_harm(
    ratings: Ratings, pairs: Sequence[tuple[Key, Key]], seed: int, progress: Progress | None
) -> list[Harm]:
    """For every model and profile: users below their accuracy under `none`, beside what flipping signs gives."""
    found = []
    for done, (key, none) in enumerate(pairs):
        if progress:
            progress(f"flipping changes of {key[0]}", done, len(pairs))
        change = profile_change(ratings, key, none)
        if not np.isnan(change).all():
            found.append(_harm(key, _served(ratings, change), seed))
    # A model that does not read the profile changes nothing, and is no test.
    tested = [harm for harm in found if harm.worse_by_chance]
    q_of = dict(zip(map(id, tested), false_discovery([harm.p for harm in tested]), strict=True))
    return [msgspec.structs.replace(harm, q=q_of.get(id(harm), 1.0)) for harm in found]


def _served(ratings: Ratings, change: Floats) -> _Served:
    scored = ~np.isnan(change)
    users = np.unique(ratings.users[scored], return_inverse=True)[1]
    return _Served(change[scored], users, np.sqrt(np.bincount(users, weights=change[scored] ** 2)))


def _harm(key: Key, served: _Served, seed: int) -> Harm:
    worse, clearly = served.counts(served.changes)
    random = np.random.default_rng(seed)
    moved = np.flatnonzero(served.changes)
    drawn = []
    for _ in range(FLIPS):
        flipped = np.zeros_like(served.changes)
        flipped[moved] = served.changes[moved] * (1.0 - 2.0 * random.integers(2, size=len(moved)))
        drawn.append(served.counts(flipped))
    by_chance = np.array(drawn, dtype=np.float64)
    return Harm(
        rm=key[0],
        view=key[1],
        users=len(served.errors),
        worse=worse,
        worse_by_chance=float(by_chance[:, 0].mean()),
        clearly_worse=clearly,
        clearly_worse_by_chance=float(by_chance[:, 1].mean()),
        p=float((np.count_nonzero(by_chance[:, 1] >= clearly) + 1) / (FLIPS + 1)),
        q=1.0,
    )


def harmed_users(ratings: Ratings, pairs: Sequence[tuple[Key, Key]]) -> list[HarmedUser]:
    """The users who are clearly worse off, by name; some of them are so by chance."""
    names = np.unique([item.user_id for item in ratings.items])
    found = []
    for key, none in pairs:
        change = profile_change(ratings, key, none)
        scored = ~np.isnan(change)
        users = ratings.users[scored]
        sums, squares = (
            np.bincount(users, weights=one, minlength=len(names)) for one in (change[scored], change[scored] ** 2)
        )
        counts = np.bincount(users, minlength=len(names))
        for user in np.flatnonzero(sums < CLEARLY * np.sqrt(squares) - 1e-9):
            gain = float(sums[user] / counts[user])
            found.append(HarmedUser(rm=key[0], view=key[1], user_id=str(names[user]), n=int(counts[user]), gain=gain))
    return sorted(found, key=lambda one: (one.rm, one.view, one.gain))
