"""What a best-of-N run says, as typed objects. Every key of `palate bon --json` is documented here.

Scores are the critic's. All intervals are 95% and resample users; an interval is absent (null) where there are
too few users to have one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.downstream._items import ViewShown
from palate.downstream._personal import PersonalGain
from palate.runs import RunSummary
from palate.stats import Estimate, PairedTest

ChooserKind = Literal["model", "random", "longest", "oracle"]


class PolicySamples(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy wrote when it saw this much of the user."""

    policy_view: str
    sampled: int
    """Items with samples."""
    failed: int
    """Items for which nothing could be drawn; they are left out."""
    reasons: dict[str, int]
    """Why, with how often."""
    samples: int
    """Texts, over all items."""
    empty: int
    """Texts without a word; they are kept and marked like any other."""
    unfinished: int
    """Texts cut off at the token limit."""
    distinct: float | None
    """The mean share of an item's texts that differ from one another."""
    mean_tokens: float | None
    unseen: int
    """Sampled items of whose user the policy saw nothing, though the view should show something."""
    shortened: int
    """Sampled items whose view did not fit the policy's context as a whole."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Best-of-k: the exact expectation over all subsets of k samples."""

    k: int
    divergence: float
    """log k - (k - 1)/k, an upper bound on the distance from the policy in nats."""
    score: float | None
    """The critic's mean score of what was chosen."""
    low: float | None
    high: float | None
    reward: float | None
    """The mean reward of what was chosen, in standard deviations of the reward over the item's samples."""
    oracle_share: Estimate | None
    """How much of the oracle's gain over random is reached, on the same items."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One chooser among the samples of one policy view."""

    policy_view: str
    kind: ChooserKind
    """A reward model; or beside it `random`, `longest`, and `oracle`, which is the critic itself."""
    chooser: str
    """The reward model's name, or the kind again."""
    view: str | None
    """What the reward model saw of the user."""
    n: int
    """Items where all samples have a grade and a reward."""
    users: int
    left_out: int
    """Sampled items left out, since a grade or the rating is unscored."""
    reasons: dict[str, int]
    """Why, with how often."""
    points: list[Point]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One end of a difference: who chose among how many, of which samples."""

    policy_view: str
    chooser: str
    view: str | None
    k: int


class BestOfNDifference(PairedTest, frozen=True, kw_only=True):
    """The critic's mean score of one choice minus another's, on the items that both have.

    The false discovery rate is held over all differences of the run, personal gains among them.
    """

    about: Literal["over random", "between models", "in context", "in context or best-of-n"]
    one: Choice
    other: Choice


class BestOfNSummary(RunSummary, frozen=True, kw_only=True):
    """Everything that a run says."""

    policy: str
    critic: str
    drawn: int
    """N, the number of samples for each prompt."""
    temperature: float
    top_p: float
    tokens: int
    """Maximum number of tokens of a sample."""
    policies: list[PolicySamples]
    curves: list[Curve]
    differences: list[BestOfNDifference]
    personal: list[PersonalGain]
    """What the user's own view brought over none and over a stranger's, where it shows something."""
    shown: list[ViewShown]
    """What each view showed."""
