"""The table's own folder: `settings.json` names the runs beside it that hold everything the table is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from palate import __version__
from palate.downstream.best_of_n import BonRun
from palate.downstream.guide import GuideRun
from palate.evaluation import Run
from palate.records import Card, PalateError
from palate.runs import HashedSettings, RunFolder, file_name
from palate.views import ViewSpec

FORMAT = 2
KIND: Literal["steer"] = "steer"


class InContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy was shown of the user, or of a stranger, and the runs about it."""

    spec: ViewSpec
    retriever: str
    """How the view's history was picked; empty where the view picks nothing."""
    sampled: str
    greedy: str
    likelihood: str

    @property
    def view(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def name(self) -> str:
        """As a person wrote it."""
        return f"{self.view}@{self.retriever}" if self.retriever else self.view


class SteerSettings(HashedSettings, frozen=True, kw_only=True):
    """Folders of runs by name. Each is named after a hash of its own settings, so these say what was measured."""

    kind: Literal["steer"] = KIND
    benchmark: Card
    content_hash: str
    policy: str
    views: list[ViewSpec]
    """What the reward models see of the user."""
    weight: float
    seed: int
    reward: str
    """Reward models on the pairs."""
    likelihood: str
    """The policy's own likelihood on the pairs."""
    best_of_n: str
    guided: str
    in_context: list[InContext]
    palate: str = __version__
    format: int = FORMAT

    @property
    def folder_name(self) -> str:
        """A name that any file system takes, with ten digits that change with any of the settings."""
        return f"{file_name(self.benchmark.name)}-steer-{self.hash}"

    @property
    def parts(self) -> dict[str, str]:
        """Every run of the table, by what it is about."""
        found = {
            "reward accuracy": self.reward,
            "likelihood": self.likelihood,
            "best-of-n": self.best_of_n,
            "guided": self.guided,
        }
        for one in self.in_context:
            found |= {
                f"in context {one.name}, sampled": one.sampled,
                f"in context {one.name}, greedy": one.greedy,
                f"in context {one.name}, likelihood": one.likelihood,
            }
        return found


class SteerRun(RunFolder[SteerSettings]):
    """The folder of a table, and its parts."""

    settings_type = SteerSettings
    kind = KIND
    made_by = "palate steer"

    def part(self, name: str) -> Path:
        """The folder of a part, which lies beside the table's own."""
        folder = self.folder.resolve().parent / name
        if not folder.is_dir():
            raise PalateError(
                f"{folder} is not there, and the table {self.folder} is made of it. Put it back, or run palate steer "
                "again."
            )
        return folder

    def folders(self) -> list[Path]:
        """All parts, each once."""
        return [self.part(name) for name in dict.fromkeys(self.settings.parts.values())]

    def rated(self, name: str) -> Run:
        """A part that rated the pairs."""
        return Run.open(self.part(name))

    def best_of(self, name: str) -> BonRun:
        """A part that drew samples."""
        return BonRun.open(self.part(name))

    def guided(self) -> GuideRun:
        """The part that guided the policy."""
        return GuideRun.open(self.part(self.settings.guided))
