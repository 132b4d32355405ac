"""Guided decoding as a kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palate.downstream.guide._document import guide_document
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._run import GuideSettings, ledgers
from palate.downstream.guide._summary import summarise_guide
from palate.report import Document
from palate.runs import Experiment, Ledger, Reading, Run
from palate.runs._experiment import DEFAULT_READING


class Guide(Experiment[GuideSettings, GuideSummary]):
    """Reward models steer a policy while it writes: policy accuracy, and what a critic says of the texts."""

    kind = "guide"
    command = "palate guide"
    settings = GuideSettings

    def ledgers(self, settings: GuideSettings) -> Sequence[Ledger[Any]]:
        """Prompts, what was shown of their users, tokens with their rewards, texts, ratings and grades."""
        return ledgers(settings)

    def summarise(self, run: Run[GuideSettings], reading: Reading = DEFAULT_READING) -> GuideSummary:
        """Every number from the raw log-probabilities, rewards, ratings, texts and grades."""
        return summarise_guide(run)

    def document(self, run: Run[GuideSettings], summary: GuideSummary, *, users: bool = True) -> Document:
        """Policy accuracy and the critic's scores against the weight, and every prompt with what was written."""
        return guide_document(run, summary, users=users)


GUIDE = Guide()
