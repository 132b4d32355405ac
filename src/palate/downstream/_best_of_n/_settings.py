"""Everything that decides what a best-of-N run measures, and the hash that names its folder."""

from __future__ import annotations

from typing import Literal

from palate import __version__
from palate.downstream._policy import Drawing
from palate.records import Card
from palate.runs import HashedSettings, ModelSettings, Named, file_name
from palate.views import Budget, ViewSpec

FORMAT = 2
KIND: Literal["best-of-n"] = "best-of-n"


class BonSettings(HashedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run. Two runs with the same hash measure the same thing."""

    kind: Literal["best-of-n"] = KIND
    benchmark: Card
    content_hash: str
    policy: Named
    policy_views: list[ViewSpec]
    """What the policy sees of the user; each has samples of its own."""
    drawing: Drawing
    steps: list[int]
    """The k of best-of-k."""
    reward_models: list[ModelSettings]
    views: list[ViewSpec]
    """What the reward models see of the user."""
    critic: Named
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
        return f"{file_name(self.benchmark.name)}-best-of-{self.drawing.samples}-{self.hash}"
