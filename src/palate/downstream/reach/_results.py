"""What a reach run says, as typed objects. Every key of `palate reach --json` is documented here.

A gain is for each root-nat, a unit of sqrt(2 KL) from the untrained policy, to first order. All intervals are 95% and
resample users; the false discovery rate is held over all tests of the run.
"""

from __future__ import annotations

import msgspec

from palate.downstream._items import ViewShown
from palate.downstream.best_of_n._results import PolicySamples
from palate.runs import RunSummary
from palate.stats import Figure, PairedTest


class RewardReach(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model. A test is absent (null) where the reward gives no gradient."""

    rm: str
    reach: PairedTest | None
    """The personal part of `pays`: less what a step of the same length brings along the gradient with strangers'."""
    pays: PairedTest | None
    """What a step along its gradient with the own view brings in the critic's score, in points."""
    pays_stranger: PairedTest | None
    """The same along the gradient of the reward that sees strangers, by a step of the same length."""
    rise_reach: PairedTest | None
    """The personal part of `rise`."""
    rise: PairedTest | None
    """What a step along its gradient brings in the reward itself, in its deviations within prompts; at most 1."""
    rise_stranger: PairedTest | None
    """What the gradient of the reward that sees strangers brings in the reward that sees the user."""
    followed: PairedTest | None
    """What a policy would gain in the critic's score that could follow the reward perfectly: no gradient in it."""
    agreement: Figure | None
    """How often the reward, seeing the user, orders two texts of a prompt as the critic does."""
    left_out: int
    """Items without a rating, seeing the user or a stranger."""
    reasons: dict[str, int]
    """Why, with how often."""


class ReachSummary(RunSummary, frozen=True, kw_only=True):
    """Everything that a run says."""

    policy: str
    policy_view: str
    view: str
    """What the reward models see of the user."""
    stranger: str
    """What they see of somebody else."""
    critic: str
    drawn: int
    """N, the number of samples for each prompt."""
    temperature: float
    top_p: float
    tokens: int
    """Maximum number of tokens of a sample."""
    sketch: int | None
    """Size of the random projections by which gradients were compared; null where they were exact."""
    counted: int
    """Items with samples whose user is shown."""
    halves: tuple[int, int]
    """How many users of these items are in each half."""
    ungraded: int
    """Texts of these items without a grade; they are left out."""
    unread: int
    """Texts of these items without a token; they are left out."""
    samples: PolicySamples
    critic_pays: PairedTest | None
    """What a step along the gradient of the critic's own scores brings in them: the most that can be hoped for."""
    models: list[RewardReach]
    shown: list[ViewShown]
    """What each view showed."""
