"""What a run says, as typed objects. Every key of `palate eval --json` is documented here.

All accuracies count a tie for the best response as its fair share (half, for a pair) and leave
unscored items out; those are counted in `unscored`. All intervals are 95% and resample users, and items
where users judge the same ones; an interval is absent (null) where there are too few users to have one.
"""

from __future__ import annotations

import msgspec

from palate.evaluation._run import Cost
from palate.runs import RunSummary
from palate.stats import Estimate, PairedTest, WorstTenth


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """How far the probabilities that a model claims can be believed."""

    n: int
    """Scored items with probabilities."""
    brier: float
    """Mean squared error of the probabilities; 0.25 is what saying one half gets on pairs."""
    ece: float
    """Expected calibration error: mean distance between claimed confidence and accuracy, 10 bins."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge of pairs did when the order of the responses was turned round."""

    pairs: int
    consistent: int
    """The same response both times."""
    flipped: int
    """The same letter both times, and so the other response."""
    tied: int
    """A tie at least once."""
    first: float
    """How often the response shown first won, ties as half; one half for a judge without a position habit."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model under one view."""

    rm: str
    view: str
    of: str | None
    """For `swapped` and `twin` views: the view that was taken from somebody else."""
    n: int
    """Items with a score."""
    users: int
    """Users with at least one scored item."""
    accuracy: float | None
    low: float | None
    high: float | None
    macro: float | None
    """Mean over users of each user's accuracy, so that busy users do not drown the others."""
    worst_tenth: WorstTenth | None
    """How the tenth of users served worst fare; absent where fewer than 50 users have 4 scored items."""
    chance: float | None
    """What guessing gets on the same items: one half for pairs, less where more was offered."""
    ties: int
    """Scored items where the model could not choose."""
    unscored: int
    """Items without a score; they count neither way."""
    empty: int
    """Items whose view had nothing to show, such as those of a user without history."""
    notes: int
    """Scored items that carry a note, such as a fall-back to an impersonal score."""
    length_controlled: Estimate | None
    """Mean of the accuracy where the preferred response is the longest and where it is the shortest."""
    twin_consistency: Estimate | None
    """Share of twin pairs where both twins are right."""
    oracle_gap_closed: Estimate | None
    """How far the view gets from `none` towards `oracle`; absent where the oracle gains nothing."""
    calibration: Calibration | None
    orders: Orders | None
    """For judges of pairs, on the items that they scored."""


class Gain(PairedTest, frozen=True, kw_only=True):
    """What a view adds for one model: accuracy with it minus accuracy with another, on the same items.

    Items whose view had nothing to show are left out: an empty profile adds nothing.
    q holds the false discovery rate over all gains of the run that could differ from 0.
    """

    rm: str
    view: str
    over: str


class Difference(PairedTest, frozen=True, kw_only=True):
    """One model against another under the same view, on the items that both scored."""

    view: str
    rm: str
    than: str


class OverBaseline(PairedTest, frozen=True, kw_only=True):
    """A model against the impersonal one of a training run, which sees nobody, on the items that both scored.

    It says whether the model is better, and not whether the person makes it so: that is a `Gain` over `none` and
    over `swapped`, of one model. q holds the false discovery rate over all of these, whatever is known.
    """

    rm: str
    view: str
    than: str
    """The impersonal model."""
    known: str
    """`any`, or how many judgements of the user could be learned from: `0`, `1 to 10`, `11 to 50`, `over 50`."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy on part of the items: a domain, a difficulty, a contrast, a group of users."""

    rm: str
    view: str
    by: str
    """`category`, `difficulty`, `contrast`, `known` (judgements to learn from) or `demographics.FIELD`."""
    value: str
    n: int
    users: int
    accuracy: float
    low: float | None
    high: float | None


class UserAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How one user is served."""

    rm: str
    view: str
    user_id: str
    n: int
    accuracy: float


class Summary(RunSummary, frozen=True, kw_only=True, dict=True):
    """Everything that one run says, recomputed from its raw ratings."""

    split: str | None
    """For runs of `palate train`: what was trained on and what was asked, in words."""
    resampled: str = "users"
    """What the intervals are about: `users`, or `users and items` where users judge the same items."""
    strangers: list[str]
    """Who the strangers of each such view are, and how well they match the users whose place they take."""
    results: list[Result]
    gains: list[Gain]
    differences: list[Difference]
    over_baseline: list[OverBaseline]
    """For runs of `palate train`: each model against the impersonal one, which is no personal gain."""
    costs: list[Cost]
    """For runs of `palate train` that kept their models: what a user costs each."""
    slices: list[Slice]
    user_accuracies: list[UserAccuracy]
