"""Best-of-N as a kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palate.downstream.best_of_n._document import best_of_n_document
from palate.downstream.best_of_n._results import BestOfNSummary
from palate.downstream.best_of_n._run import LEDGERS, BestOfNSettings
from palate.downstream.best_of_n._summary import summarise_best_of_n
from palate.report import Document
from palate.runs import Experiment, Ledger, Reading, Run
from palate.runs._experiment import DEFAULT_READING


class BestOfN(Experiment[BestOfNSettings, BestOfNSummary]):
    """Reward models choose among a policy's own texts, and a critic says what the choice is worth."""

    kind = "best-of-n"
    command = "palate bon"
    settings = BestOfNSettings

    def ledgers(self, settings: BestOfNSettings) -> Sequence[Ledger[Any]]:
        """Prompts, what was shown of their users, samples, ratings and grades."""
        return LEDGERS

    def summarise(self, run: Run[BestOfNSettings], reading: Reading = DEFAULT_READING) -> BestOfNSummary:
        """Every number from the raw samples, ratings and grades."""
        return summarise_best_of_n(run)

    def document(self, run: Run[BestOfNSettings], summary: BestOfNSummary, *, users: bool = True) -> Document:
        """Scores and rewards against k, differences, and every prompt with its samples."""
        return best_of_n_document(run, summary, users=users)


BEST_OF_N = BestOfN()
