"""What a run of guided decoding says, as typed objects. Every key of `palate guide --json` is documented here.

Scores are the critic's. All intervals are 95% and resample users; an interval is absent (null) where there are
too few users to have one.
"""

from __future__ import annotations

import msgspec

from palate.downstream._items import ViewShown
from palate.downstream._personal import PersonalGain
from palate.runs import RunSummary
from palate.stats import Figure, PairedTest


class PolicyAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How often the policy, steered with this weight, gives most to what the user preferred. Ties are half."""

    weight: float | None
    """Null is the limit of large weights: the order of the responses by their tokens' regrets."""
    normalised: Figure
    """By log-probability per token."""
    whole: Figure
    """By log-probability of the whole response."""
    over_alone: Figure
    """`normalised` less the same at weight 0, which is the policy's own likelihood."""
    q: float | None
    """The false discovery rate of that difference over all differences of the run; null at weight 0."""


class PairResult(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model and view on the comparisons: as a judge of whole responses, and as a guide of a policy."""

    policy_view: str
    rm: str
    view: str
    n: int
    """Comparisons that count: those with rewards at every token and a rating."""
    users: int
    left_out: int
    reasons: dict[str, int]
    """Why, with how often."""
    reward_accuracy: Figure | None
    """How often the reward model itself scores what the user preferred highest, on the same comparisons."""
    policy_accuracy: list[PolicyAccuracy]


class TextResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was written under one reward model, view and weight; or, at weight 0, by the policy alone."""

    policy_view: str
    rm: str
    """Empty for the policy alone, and so is the view."""
    view: str
    weight: float
    n: int
    """Texts with a grade."""
    users: int
    failed: int
    """Items for which nothing could be written; they are left out."""
    ungraded: int
    """Texts that the critic left unscored."""
    reasons: dict[str, int]
    """Why, with how often, for both."""
    empty: int
    """Texts without a word; they are kept and graded like any other."""
    unfinished: int
    """Texts cut off at the maximum number of tokens."""
    mean_tokens: float | None
    log_probability: float | None
    """Per token, under the policy alone."""
    score: Figure | None
    reward_gain: Figure | None
    """The reward of the text less that of what the policy writes alone, both in one ask."""
    over_alone: PairedTest | None
    """The critic's mean score less that of what the policy writes alone, on the items that have both; the false
    discovery rate `q` is over all differences of the run."""


class GuideSummary(RunSummary, frozen=True, kw_only=True):
    """Everything that a run says."""

    policy: str
    critic: str | None
    top_k: int
    tokens: int
    """Maximum number of tokens of a text."""
    chunk: int
    temperature: float
    pairs: int
    """Comparisons whose responses were followed token by token."""
    accuracies: list[PairResult]
    texts: list[TextResult]
    personal: list[PersonalGain]
    """What the user's own view brought over none and over a stranger's, where it shows something."""
    shown: list[ViewShown]
    """What each view showed."""
