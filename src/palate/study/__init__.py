"""Does a benchmark predict what happens downstream? Many reward models, several benchmarks, all uses, one answer."""

from palate.study._cells import Cell, cells_of
from palate.study._hands import Watcher
from palate.study._plan import Entry, Plan, PlanError, read_plan
from palate.study._results import CellState, Cost, EntryResult, NewFamilies, NumberInfo, StudySummary, Unprofiled
from palate.study._study import STUDY, asked_cells, check_plan, study

__all__ = [
    "STUDY",
    "Cell",
    "CellState",
    "Cost",
    "Entry",
    "EntryResult",
    "NewFamilies",
    "NumberInfo",
    "Plan",
    "PlanError",
    "StudySummary",
    "Unprofiled",
    "Watcher",
    "asked_cells",
    "cells_of",
    "check_plan",
    "read_plan",
    "study",
]
