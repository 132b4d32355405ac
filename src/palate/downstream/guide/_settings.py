"""Everything that decides what a guided run measures, and the hash that names its folder."""

from __future__ import annotations

from typing import Literal

from palate import __version__
from palate.downstream.guide._guiding import Guiding
from palate.records import Card
from palate.runs import Fingerprint, HashedSettings, ModelSettings, file_name
from palate.views import Budget, ViewSpec

FORMAT = 2
KIND: Literal["guide"] = "guide"


class GuideSettings(HashedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run. Two runs with the same hash measure the same thing."""

    kind: Literal["guide"] = KIND
    benchmark: Card
    content_hash: str
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
    """Who marks what is written; without one, nothing is written."""
    accuracy: bool
    """Whether policy accuracy is measured on the comparisons."""
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    budget: Budget | None
    limit: int | None
    seed: int
    palate: str = __version__
    format: int = FORMAT

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with the hash at its end."""
        return f"{file_name(self.benchmark.name)}-guide-{self.hash}"
