"""The table of steering as a kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palate.downstream.steer._document import steer_document
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._run import SteerSettings, part_folder
from palate.downstream.steer._summary import summarise_steer
from palate.report import Document
from palate.runs import Experiment, Ledger, Reading, Run
from palate.runs._experiment import DEFAULT_READING


class Steer(Experiment[SteerSettings, SteerSummary]):
    """Every way of steering a policy beside what the user really wrote: alone, in context, chosen, guided."""

    kind = "steer"
    command = "palate steer"
    settings = SteerSettings

    def ledgers(self, settings: SteerSettings) -> Sequence[Ledger[Any]]:
        """None of its own: everything is in its parts."""
        return ()

    def summarise(self, run: Run[SteerSettings], reading: Reading = DEFAULT_READING) -> SteerSummary:
        """Every number from the runs beside the table."""
        return summarise_steer(run)

    def document(self, run: Run[SteerSettings], summary: SteerSummary, *, users: bool = True) -> Document:
        """The table, what is personal in it, and the samples."""
        return steer_document(run, summary, users=users)

    def parts(self, run: Run[SteerSettings]) -> list[Path]:
        """The runs of the table, each once."""
        return [part_folder(run, name) for name in dict.fromkeys(run.settings.parts.values())]


STEER = Steer()
