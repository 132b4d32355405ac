"""Repairing the folder of any kind of run, or of samples that runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palate.downstream._samples import SAMPLES, is_samples
from palate.downstream.best_of_n import BonRun
from palate.downstream.guide import GuideRun
from palate.downstream.ppo import PpoRun
from palate.downstream.steer import SteerRun
from palate.evaluation import Run
from palate.runs import Dropped, RunFolder, repair_ledgers

KINDS: tuple[type[RunFolder[Any]], ...] = (BonRun, GuideRun, PpoRun)


def repair(folder: Path) -> list[Dropped]:
    """Drop the lines that cannot be used, in all parts of a table; what each file lost, where it lost any."""
    if is_samples(folder):
        return repair_ledgers(folder, [SAMPLES])
    if SteerRun.is_one(folder):
        return [lost for part in SteerRun.open(folder).folders() for lost in repair(part)]
    kind = next((kind for kind in KINDS if kind.is_one(folder)), Run)
    return repair_ledgers(folder, kind.open_unchecked(folder).ledgers)
