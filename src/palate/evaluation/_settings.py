"""Everything that decides what an evaluation measures, and the hash that names its folder."""

from __future__ import annotations

from palate import __version__
from palate.records import Card
from palate.runs import HashedSettings, ModelSettings, file_name
from palate.views import Budget, ViewSpec

FORMAT = 2


class Settings(HashedSettings, frozen=True, kw_only=True):
    """The resolved settings of a run. Two runs with the same hash measure the same thing."""

    benchmark: Card
    content_hash: str
    models: list[ModelSettings]
    views: list[ViewSpec]
    retriever: str
    retriever_fingerprint: str
    writer: str | None
    """The language model that writes personas and plans, where a view asks for them."""
    budget: Budget | None
    limit: int | None
    seed: int
    baseline: str | None = None
    """The label of the impersonal model that the others of a training run are measured against."""
    split: str | None = None
    """What a training run trained on and what it asked, in words."""
    palate: str = __version__
    format: int = FORMAT

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with the hash at its end."""
        return f"{file_name(self.benchmark.name)}-{self.hash}"
