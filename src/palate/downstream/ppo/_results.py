"""What a training run says, as typed objects. Every key of `palate ppo --json` is documented here.

All intervals are 95% and resample users; an interval is absent (null) where there are too few users to have one.
"""

from __future__ import annotations

import msgspec

from palate.downstream._items import ViewShown
from palate.downstream._personal import PersonalGain
from palate.runs import RunSummary
from palate.stats import PairedTest


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the curves: means over the texts that were drawn in it, before the policy moved."""

    step: int
    """From 1."""
    reward: float
    """The reward model's mean score, as it gave it."""
    reward_std: float
    """The standard deviation of these scores."""
    kl: float
    """Divergence from the reference in nats for each text: the sum over its tokens of log p - log reference."""
    kl_coefficient: float
    entropy: float
    """Nats for each token."""
    length: float
    """Tokens of a text, its end among them."""
    truncated: float
    """The share of texts that did not end by themselves."""
    clip_fraction: float
    """The share of tokens whose ratio was clipped, over all updates of the step."""
    explained_variance: float | None
    """How much of the variance of returns the value head foresaw; null without a value head or variance."""
    loss: float
    value_loss: float | None
    grad_norm: float
    """The mean norm of the policy's gradient, before it is clipped."""
    left_out: int
    """Texts that stayed out because they are unscored."""
    seconds: float = 0.0
    """What the step took; kept apart from the rest, which is the same on every run."""

    def timed(self, seconds: float) -> StepLine:
        """With what it took."""
        return msgspec.structs.replace(self, seconds=seconds)


class PolicyTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy wrote for the held-out prompts."""

    score: float | None
    """The critic's mean grade."""
    reward: float | None
    """The reward model's mean score."""
    agreement: float | None = None
    """Of two texts for one prompt between which the critic finds a difference: how often the reward model is for the
    same one, a tie being half; the mean over this policy's prompts with such a pair."""
    tokens: float | None
    """Of a text."""
    texts: int
    empty: int
    """Texts without a word."""
    truncated: int
    """Texts that did not end by themselves."""
    unscored: int
    """Texts without a grade."""


class Change(PairedTest, frozen=True, kw_only=True):
    """The trained policy minus the untrained one, on the same prompts and seeds; `n` prompts have a number of both.

    Each is a test of its own, so `q` is `p`.
    """


class ByView(msgspec.Struct, frozen=True, kw_only=True):
    """The trained policy on held-out users, by what was shown: on the prompts where the user's own view shows something
    and every view has a number."""

    measure: str
    """`the critic's score` of what it wrote seeing this view; or `agreement with the critic` of the reward model seeing
    this view, on what the policy wrote seeing the user."""
    view: str
    value: float
    n: int
    users: int


class PpoSummary(RunSummary, frozen=True, kw_only=True):
    """Everything that a training run says. `items` and `users` are those of both sides."""

    policy: str
    policy_view: str
    reward_model: str
    view: str
    critic: str
    algorithm: str
    steps: int
    """How many there are to be."""
    train_users: int
    train_items: int
    test_users: int
    test_items: int
    left_out: dict[str, int]
    """Why items were left out, with how often."""
    curve: list[StepLine]
    before: PolicyTexts | None
    after: PolicyTexts | None
    score: Change | None
    """What training brought by the critic's grades: the number that counts."""
    reward: Change | None
    """What it brought by the reward model's own scores."""
    agreement: Change | None
    """What became of the agreement, over prompts where both policies have such a pair."""
    parts: dict[str, Change]
    """What became of each thing that the critic measured, over the prompts of users who have it, where they are five
    or more; the one that changed most over all prompts first."""
    by_view: list[ByView]
    """Own, none and stranger: what the trained policy writes, and how well the reward model tells its texts apart."""
    personal: list[PersonalGain]
    """What the user's own view brought over none and over a stranger's, where it shows something."""
    shown: list[ViewShown]
    """What each view showed of held-out users."""
