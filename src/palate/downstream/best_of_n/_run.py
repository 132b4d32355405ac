"""The folder of a best-of-N run.

items.jsonl     the prompts, with whose they are
samples.jsonl   what the policy wrote for each, a line for each item and policy view
views.jsonl     whose profile each view showed for each item, and of which parts.jsonl
ratings.jsonl   every reward model's scores of these texts, under a stranger's view once for each stranger
grades.jsonl    the critic's grades of the same
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palate.downstream._items import ITEMS
from palate.downstream._policy import Drawing
from palate.downstream._samples import SAMPLES
from palate.records import Grade, Rating
from palate.runs import PARTS, VIEWS, Fingerprint, Ledger, ModelSettings, Needs, ViewedSettings
from palate.views import ViewSpec

RatedKey = tuple[str, str, str, str, int]
"""Policy view, reward model, view, item and draw."""


class BestOfNSettings(ViewedSettings, frozen=True, kw_only=True):
    """The resolved settings of a best-of-N run."""

    kind: Literal["best-of-n"] = "best-of-n"
    policy: Fingerprint
    policy_views: list[ViewSpec]
    """What the policy sees of the user; each has samples of its own."""
    drawing: Drawing
    steps: list[int]
    """The k of best-of-k."""
    reward_models: list[ModelSettings]
    views: list[ViewSpec]
    """What the reward models see of the user."""
    critic: Fingerprint

    @property
    def label(self) -> str:
        """With N."""
        return f"best-of-{self.drawing.samples}"


class SampleRatingLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ratings.jsonl`; scores stand in the order of the texts in `samples.jsonl`."""

    policy_view: str
    rm: str
    view: str
    item: str
    draw: int = 0
    """Which of several strangers the view is of."""
    rating: Rating

    @property
    def key(self) -> RatedKey:
        """What is rated once and once only."""
        return self.policy_view, self.rm, self.view, self.item, self.draw


class SampleGradeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `grades.jsonl`; grades stand in the order of the texts in `samples.jsonl`."""

    policy_view: str
    item: str
    grades: tuple[Grade, ...]


OF_SAMPLES = Needs(SAMPLES, lambda line: [(line.policy_view, line.item)])
RATINGS = Ledger("ratings.jsonl", SampleRatingLine, lambda line: line.key, OF_SAMPLES)
GRADES = Ledger("grades.jsonl", SampleGradeLine, lambda line: (line.policy_view, line.item), OF_SAMPLES)
LEDGERS = (ITEMS, PARTS, VIEWS, SAMPLES, RATINGS, GRADES)
