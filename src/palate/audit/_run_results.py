"""What an audit of a run says, as typed objects. Every key of `palate audit RUN --json` is here.

Every group here has at least the least number of users, and the groups of a field make up the whole, so that no
smaller one can be had by subtraction. Nobody is named unless users are asked for. Numbers are
shares from 0 to 1; intervals are 95% and resample users.
"""

from __future__ import annotations

import msgspec

from palate.audit._stability import Stability
from palate.evaluation import Slice
from palate.report import Finding
from palate.stats import PairedTest


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The distance between the best and the worst served of the groups that are shown."""

    rm: str
    view: str
    by: str
    best: str
    worst: str
    gap: float
    """Accuracy of the best served minus accuracy of the worst served."""
    low: float | None
    high: float | None
    """Of these two groups; that they were picked as the extremes is in p and q, not in the interval."""
    p: float
    """Permutation test that the groups do not differ: whole users, with their couples, change group."""
    q: float
    """The same with the false discovery rate held over all fields, models and views."""


class Hidden(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of one field that are not shown by themselves."""

    by: str
    cells: int
    users: int
    """Users in these groups."""
    reason: str
    """Why, and what they are counted as."""


class SliceGain(PairedTest, frozen=True, kw_only=True):
    """What the profile does for one group: accuracy with it minus accuracy with `none`, on the same items.

    q holds the false discovery rate over all groups, models and views.
    """

    rm: str
    view: str
    by: str
    value: str


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """How many users are served worse with the profile than without, and how many would be by chance alone."""

    rm: str
    view: str
    users: int
    """Users with items scored both ways."""
    worse: int
    """Users whose accuracy is lower with the profile."""
    worse_by_chance: float
    """How many that would be on average if every change were as likely a gain as a loss."""
    clearly_worse: int
    """Users whose loss is more than 1.96 standard errors of their own changes."""
    clearly_worse_by_chance: float
    p: float
    """How often chance gives as many clearly worse users."""
    q: float


class HarmedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user who is clearly served worse with the profile."""

    rm: str
    view: str
    user_id: str
    n: int
    gain: float


class RunAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Who is served worse than others, and who is served worse by being known?"""

    run: str
    """The run's folder."""
    benchmark: str
    benchmark_title: str
    seed: int
    least: int
    """Groups of fewer users are put together."""
    items: int
    users: int
    complete: bool
    """False when some items were not rated yet."""
    models: list[str]
    """The models looked at: the controls are left out unless there is nothing else."""
    views: list[str]
    """The views looked at: `none` and the users' own profiles."""
    findings: list[Finding]
    """The verdict, warnings first."""
    gaps: list[Gap]
    slices: list[Slice]
    hidden: list[Hidden]
    harms: list[Harm]
    gains: list[SliceGain]
    stability: Stability | None
    """Null with fewer than two models that rated everything."""
    harmed_users: list[HarmedUser] | None
    """Only where users were asked for."""
