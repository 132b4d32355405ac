"""The folder of a run of guided decoding.

items.jsonl        the prompts, with whose they are; comparisons with their responses
views.jsonl        whose profile each view showed for each item, and of which parts.jsonl
likelihoods.jsonl  at each token of each response: its log-probability, and the policy's likeliest tokens
rewards.jsonl      every reward model's rewards of the same tokens
ratings.jsonl      every reward model's scores of the whole responses
generations.jsonl  what was written, a line for each reward model, view, weight and item
outcomes.jsonl     every reward model's scores of what was written, all weights in one ask
grades.jsonl       the critic's grades of the same
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from palate.downstream._items import ITEMS
from palate.downstream.guide._guiding import Guiding
from palate.records import Grade, Rating
from palate.runs import PARTS, VIEWS, Fingerprint, Ledger, ModelSettings, Needs, ViewedSettings
from palate.views import ViewSpec

PairKey = tuple[str, str, str, str]
"""Policy view, reward model, view and item."""
TextKey = tuple[str, str, str, float, str]
"""Policy view, reward model, view, weight and item."""
ALONE = ""
"""The reward model and the view of a policy that nobody guides."""


class GuideSettings(ViewedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run of guided decoding."""

    kind: Literal["guide"] = "guide"
    policy: Fingerprint
    policy_views: list[ViewSpec]
    """What the policy sees of the user."""
    guiding: Guiding
    weights: list[float]
    """Of the reward; 0 is the policy alone."""
    reward_models: list[ModelSettings]
    views: list[ViewSpec]
    """What the reward models see of the user."""
    critic: Fingerprint | None
    """Who grades what is written; without one, nothing is written."""
    accuracy: bool
    """Whether policy accuracy is measured on the comparisons."""


class AnswerTokens(msgspec.Struct, frozen=True, kw_only=True):
    """A response under the policy, token by token, its end included."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    top: tuple[tuple[int, ...], ...]
    """The likeliest tokens at each place, likeliest first."""
    of_top: tuple[tuple[float, ...], ...]
    """Their log-probabilities."""

    @property
    def candidates(self) -> list[tuple[list[int], list[float], int]]:
        """At each place: the likeliest tokens and the response's own; their log-probabilities; which one is its own."""
        candidates = []
        for token, value, top, of_top in zip(self.tokens, self.log_probabilities, self.top, self.of_top, strict=True):
            if token in top:
                candidates.append(([*top], [*of_top], top.index(token)))
            else:
                candidates.append(([*top, token], [*of_top, value], len(top)))
        return candidates


class LikelihoodLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `likelihoods.jsonl`; answers in the order of the item's responses."""

    policy_view: str
    item: str
    answers: tuple[AnswerTokens, ...] = ()
    parts: int = 0
    """How many pieces of the view the policy saw."""
    note: str | None = None
    failed: str | None = None


class TokenRewardLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `rewards.jsonl`: for each response and each place, the rewards of its candidates."""

    policy_view: str
    rm: str
    view: str
    item: str
    rewards: tuple[tuple[tuple[float, ...], ...], ...] = ()
    unscored: str | None = None

    @property
    def key(self) -> PairKey:
        """What is followed once and once only."""
        return self.policy_view, self.rm, self.view, self.item


class PairRatingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `ratings.jsonl`; scores in the order of the item's responses."""

    rm: str
    view: str
    item: str
    rating: Rating


class GeneratedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `generations.jsonl`. Without guidance, `rm` and `view` are empty and the weight is 0."""

    policy_view: str
    rm: str
    view: str
    weight: float
    item: str
    text: str = ""
    tokens: int = 0
    finished: bool = False
    log_probability: float = 0.0
    """Under the policy alone, the end included."""
    parts: int = 0
    note: str | None = None
    failed: str | None = None

    @property
    def key(self) -> TextKey:
        """What is written once and once only."""
        return self.policy_view, self.rm, self.view, self.weight, self.item


class OutcomeLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `outcomes.jsonl`; scores in the order of the weights in the settings."""

    policy_view: str
    rm: str
    view: str
    item: str
    rating: Rating

    @property
    def key(self) -> PairKey:
        """What is rated once and once only."""
        return self.policy_view, self.rm, self.view, self.item


class TextGradeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `grades.jsonl`."""

    policy_view: str
    rm: str
    view: str
    weight: float
    item: str
    grade: Grade

    @property
    def key(self) -> TextKey:
        """That of the text."""
        return self.policy_view, self.rm, self.view, self.weight, self.item


LIKELIHOODS = Ledger("likelihoods.jsonl", LikelihoodLine, lambda line: (line.policy_view, line.item))
TOKEN_REWARDS = Ledger(
    "rewards.jsonl",
    TokenRewardLine,
    lambda line: line.key,
    Needs(LIKELIHOODS, lambda line: [(line.policy_view, line.item)]),
)
RATINGS = Ledger("ratings.jsonl", PairRatingLine, lambda line: (line.rm, line.view, line.item))
GENERATIONS = Ledger("generations.jsonl", GeneratedLine, lambda line: line.key, label="texts")
GRADES = Ledger("grades.jsonl", TextGradeLine, lambda line: line.key, Needs(GENERATIONS, lambda line: [line.key]))
MEASURED = (LIKELIHOODS, TOKEN_REWARDS, RATINGS, GENERATIONS, GRADES)


def outcomes(settings: GuideSettings) -> Ledger[OutcomeLine]:
    """The ledger of the rewards of what was written, each line of which is about the texts of all weights."""

    def texts(line: OutcomeLine) -> list[TextKey]:
        return [written_key(line.policy_view, line.rm, line.view, weight, line.item) for weight in settings.weights]

    return Ledger("outcomes.jsonl", OutcomeLine, lambda line: line.key, Needs(GENERATIONS, texts))


def ledgers(settings: GuideSettings) -> Sequence[Ledger[Any]]:
    """All ledgers of a run with these settings."""
    return ITEMS, PARTS, VIEWS, *MEASURED, outcomes(settings)


def written_key(policy_view: str, rm: str, view: str, weight: float, item: str) -> TextKey:
    """The key of a text: what the policy writes alone is written once for all reward models."""
    return (policy_view, rm, view, weight, item) if weight else (policy_view, ALONE, ALONE, 0.0, item)
