"""The table's own folder: `settings.json` names the runs beside it that hold everything the table is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from palate.downstream.best_of_n import BEST_OF_N
from palate.downstream.best_of_n._run import BestOfNSettings
from palate.downstream.guide import GUIDE
from palate.downstream.guide._run import GuideSettings
from palate.evaluation import EVALUATION
from palate.evaluation import Settings as EvaluationSettings
from palate.records import PalateError
from palate.runs import Run, RunSettings, beside, open_run
from palate.views import ViewSpec


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


class SteerSettings(RunSettings, frozen=True, kw_only=True):
    """Folders of runs by name. Each is named after a hash of its own settings, so these say what was measured."""

    kind: Literal["steer"] = "steer"
    policy: str
    views: list[ViewSpec]
    """What the reward models see of the user."""
    weight: float
    reward: str
    """Reward models on the pairs."""
    likelihood: str
    """The policy's own likelihood on the pairs."""
    best_of_n: str
    guided: str
    in_context: list[InContext]

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


def part_folder(run: Run[SteerSettings], name: str) -> Path:
    """The folder of a part, which lies beside the table's own."""
    folder = beside(run.folder, name)
    if not folder.is_dir():
        raise PalateError(
            f"{folder} is not there, and the table {run.folder} is made of it. Put it back, or run palate steer again."
        )
    return folder


def rated_part(run: Run[SteerSettings], name: str) -> Run[EvaluationSettings]:
    """A part that rated the pairs."""
    return open_run(part_folder(run, name), EVALUATION)


def sampled_part(run: Run[SteerSettings], name: str) -> Run[BestOfNSettings]:
    """A part that drew samples."""
    return open_run(part_folder(run, name), BEST_OF_N)


def guided_part(run: Run[SteerSettings]) -> Run[GuideSettings]:
    """The part that guided the policy."""
    return open_run(part_folder(run, run.settings.guided), GUIDE)
