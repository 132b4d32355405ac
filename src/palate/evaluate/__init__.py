"""Runs, metrics, statistics and reports."""

import sys
from types import ModuleType

from palate.evaluate._compare import Comparison as RunComparison
from palate.evaluate._compare import compare
from palate.evaluate._evaluate import default_views, evaluate
from palate.evaluate._files import browsed_items, write_reports
from palate.evaluate._metrics import summarise
from palate.evaluate._report import render_csv, render_markdown, render_page, render_terminal
from palate.evaluate._results import (
    Calibration,
    Difference,
    Estimate,
    Gain,
    Orders,
    Result,
    Slice,
    Summary,
    UserAccuracy,
)
from palate.evaluate._run import RatedItem, RatingLine, Run

__all__ = [
    "Calibration",
    "Difference",
    "Estimate",
    "Gain",
    "Orders",
    "RatedItem",
    "RatingLine",
    "Result",
    "Run",
    "RunComparison",
    "Slice",
    "Summary",
    "UserAccuracy",
    "browsed_items",
    "compare",
    "default_views",
    "evaluate",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
    "summarise",
    "write_reports",
]


class _Verb(ModuleType):
    """`palate.evaluate` is a floor of the house and its main verb; calling the floor calls the verb."""

    __call__ = staticmethod(evaluate)


sys.modules[__name__].__class__ = _Verb
