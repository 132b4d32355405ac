"""What the table of steering says, as typed objects. Every key of `palate steer --json` is documented here.

All intervals are 95% and resample users; an interval is absent (null) where there are too few users to have one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.downstream._items import ViewShown
from palate.downstream._personal import PersonalGain
from palate.runs import RunSummary
from palate.stats import Figure, PairedTest

MethodKind = Literal["none", "in-context", "best-of-n", "oracle", "guided"]
Decoding = Literal["sampled", "greedy"]
Measure = Literal["reward", "policy", "rouge1", "rougeL", "embedding"]

MEASURES: dict[Measure, str] = {
    "reward": "reward accuracy",
    "policy": "policy accuracy",
    "rouge1": "ROUGE-1",
    "rougeL": "ROUGE-L",
    "embedding": "likeness",
}


class SteerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One method of steering, on the same items as all others."""

    label: str
    kind: MethodKind
    """The policy alone; the policy that sees the user's own examples; chosen or guided by a reward model; or chosen by
    the critic itself (`oracle`)."""
    name: str
    """The reward model, or what the policy sees of the user; empty for the policy alone and the oracle."""
    view: str | None
    """What the reward model sees of the user, or the policy in context."""
    control: bool
    """Whether this is a control beside the user's own view: a reward model that sees nothing, or anybody who sees a
    stranger's view."""
    decoding: Decoding
    """Sampled texts are the mean over the samples; greedy ones take the likeliest, or best, token at each step."""
    n: int
    """Items with a text that has a grade."""
    users: int
    reward: Figure | None
    """Reward accuracy: how often the reward model scores the user's own text higher."""
    policy: Figure | None
    """Policy accuracy: how often the policy, so steered, finds the user's own text likelier per token."""
    rouge1: Figure | None
    rougeL: Figure | None  # noqa: N815 - the measure's own name
    embedding: Figure | None
    """Likeness: the cosine between the vectors of the text and of the user's own."""


class SteerDifference(PairedTest, frozen=True, kw_only=True):
    """One method minus another by one measure, on the items that both have.

    The false discovery rate is held over all differences of the table, personal gains among them.
    """

    about: Literal["over none", "steered or in context"]
    """Over the policy alone with the same decoding; or a reward model's text over in-context learning's."""
    one: str
    other: str
    """Labels of rows."""
    measure: Measure


class SteerSummary(RunSummary, frozen=True, kw_only=True):
    """Everything that the table says."""

    policy: str
    views: list[str]
    """What the reward models see of the user."""
    samples: int
    """N of best-of-N."""
    temperature: float
    top_p: float
    tokens: int
    """Maximum number of tokens of a text."""
    weight: float
    """Of the reward in guided decoding."""
    top_k: int
    parts: dict[str, str]
    """The folders of the runs that the table is made of, beside its own."""
    rows: list[SteerRow]
    differences: list[SteerDifference]
    personal: list[PersonalGain]
    """What the user's own view brought over none and over a stranger's, where it shows something."""
    shown: list[ViewShown]
    """What each view of the reward models showed."""
