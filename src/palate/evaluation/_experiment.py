"""Evaluations as a kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palate.evaluation._document import evaluation_document
from palate.evaluation._items import item_cards
from palate.evaluation._metrics import summarise
from palate.evaluation._results import Summary
from palate.evaluation._run import LEDGERS, Settings
from palate.report import Document
from palate.runs import Experiment, Ledger, Reading, Run
from palate.runs._experiment import DEFAULT_READING


class Evaluation(Experiment[Settings, Summary]):
    """How often reward models score highest what the user preferred; `palate train` measures its models so, too."""

    kind = "eval"
    command = "palate eval or palate train"
    settings = Settings
    options = ("read_again", "resample")

    def ledgers(self, settings: Settings) -> Sequence[Ledger[Any]]:
        """Items, what was shown of their users, and ratings."""
        return LEDGERS

    def summarise(self, run: Run[Settings], reading: Reading = DEFAULT_READING) -> Summary:
        """Every number, from the raw ratings."""
        return summarise(run, again=reading.read_again, resample=reading.resample)

    def document(self, run: Run[Settings], summary: Summary, *, users: bool = True) -> Document:
        """Accuracies, gains and differences, user by user and in parts, and every item."""
        cards = item_cards(run) if users else []
        return evaluation_document(summary, cards, left_out=max(0, summary.items - len(cards)))


EVALUATION = Evaluation()
