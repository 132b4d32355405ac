"""The folder of a reach run.

items.jsonl     the prompts, with whose they are
samples.jsonl   what the policy wrote for each
views.jsonl     whose profile each view showed for each item, and of which parts.jsonl
ratings.jsonl   every reward model's scores of these texts, seeing the user and seeing a stranger
grades.jsonl    the critic's grades of the same
slopes.jsonl    how fast the log-probability of each text rises along each gradient of the other half of the users
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._items import ITEMS, PromptItem
from palate.downstream._policy import Drawing
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._run import GRADES, OF_SAMPLES, RATINGS
from palate.records import PalateError
from palate.runs import PARTS, VIEWS, Fingerprint, Ledger, ModelSettings, ViewedSettings
from palate.stats import independent_clusters
from palate.views import ViewSpec

FEWEST_USERS = 2
"""In each half; with fewer there is nobody to take an interval over."""


class ReachSettings(ViewedSettings, frozen=True, kw_only=True):
    """The resolved settings of a reach run."""

    kind: Literal["reach"] = "reach"
    policy: Fingerprint
    policy_view: ViewSpec
    """What the policy sees of the user."""
    drawing: Drawing
    sketch: int | None = None
    """To how many rows and columns each matrix of gradients is projected; exact where it is missing."""
    reward_models: list[ModelSettings]
    view: ViewSpec
    """What the reward models see of the user."""
    stranger: ViewSpec
    """The same of somebody else."""
    critic: Fingerprint


class SlopeLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `slopes.jsonl`; slopes stand in the order of the texts in `samples.jsonl`."""

    policy_view: str
    item: str
    half: int
    """The half of the users that the item belongs to. The gradient is of the other."""
    slopes: tuple[float | None, ...]
    """Null for a text without a token."""
    rm: str | None = None
    """Whose gradient; the critic's where there is no name."""
    view: str | None = None
    """What the reward model saw."""


SLOPES = Ledger("slopes.jsonl", SlopeLine, lambda line: (line.rm, line.view, line.item), OF_SAMPLES)
LEDGERS = (ITEMS, PARTS, VIEWS, SAMPLES, RATINGS, GRADES, SLOPES)


def halves(items: Sequence[PromptItem], seed: int) -> NDArray[np.intp]:
    """0 or 1 for each item: its user's half, drawn by the seed, with twins in the same one."""
    clusters = independent_clusters(items)
    users: dict[int, set[str]] = {}
    for item, cluster in zip(items, clusters.tolist(), strict=True):
        users.setdefault(cluster, set()).add(item.user_id)
    sizes, side = [0, 0], dict[int, int]()
    for cluster in sorted(users, key=lambda one: _hash(seed, min(users[one]))):
        side[cluster] = int(sizes[1] < sizes[0])
        sizes[side[cluster]] += len(users[cluster])
    if min(sizes) < FEWEST_USERS:
        raise PalateError(
            f"{sum(sizes)} users cannot be split into two halves of at least {FEWEST_USERS}, twins together: the "
            "gradient of one half is read on the other. Use a larger benchmark, or a higher --limit."
        )
    return np.array([side[cluster] for cluster in clusters.tolist()], dtype=np.intp)


def _hash(seed: int, user: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{user}".encode("utf-8", "surrogatepass")).digest()
