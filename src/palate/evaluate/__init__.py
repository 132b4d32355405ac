"""Runs, metrics, statistics and reports."""

import sys
from types import ModuleType

from palate.evaluate._asks import in_benchmark_order, make_ask
from palate.evaluate._asks import sample as sample_items
from palate.evaluate._compare import Comparison as RunComparison
from palate.evaluate._compare import compare
from palate.evaluate._evaluate import LoadedModel, Report, default_views, evaluate, load_models, rated_item
from palate.evaluate._files import browsed_items, without_users, write_reports
from palate.evaluate._lines import Appender, read_lines
from palate.evaluate._metrics import summarise
from palate.evaluate._paired import q_values
from palate.evaluate._ratings import Ratings, independent_clusters
from palate.evaluate._report import (
    CLEAR,
    CurvePlot,
    Scale,
    Step,
    chance_of_error,
    content_policy,
    count,
    draw_curves,
    page_asset,
    page_environment,
    percent,
    percent_interval,
    points,
    points_interval,
    printable,
    render_csv,
    render_markdown,
    render_page,
    render_terminal,
    safe_markdown,
)
from palate.evaluate._results import (
    Calibration,
    Difference,
    Estimate,
    Gain,
    Orders,
    OverBaseline,
    Result,
    Slice,
    Summary,
    UserAccuracy,
)
from palate.evaluate._run import RatedItem, RatingLine, Run, RunWriter
from palate.evaluate._run_folder import RunFolder, json_lines, write_whole
from palate.evaluate._settings import ModelSettings, Settings, environment, file_name
from palate.evaluate._slices import MOST_GROUPS, SMALLEST_GROUP, known_bucket
from palate.evaluate._statistics import (
    GAIN,
    SHARE,
    Floats,
    Quantity,
    Resamples,
    cluster_totals,
    credit,
    false_discovery,
    intervals,
    paired_test,
    ratio,
)

__all__ = [
    "CLEAR",
    "GAIN",
    "MOST_GROUPS",
    "SHARE",
    "SMALLEST_GROUP",
    "Appender",
    "Calibration",
    "CurvePlot",
    "Difference",
    "Estimate",
    "Floats",
    "Gain",
    "LoadedModel",
    "ModelSettings",
    "Orders",
    "OverBaseline",
    "Quantity",
    "RatedItem",
    "RatingLine",
    "Ratings",
    "Report",
    "Resamples",
    "Result",
    "Run",
    "RunComparison",
    "RunFolder",
    "RunWriter",
    "Scale",
    "Settings",
    "Slice",
    "Step",
    "Summary",
    "UserAccuracy",
    "browsed_items",
    "chance_of_error",
    "cluster_totals",
    "compare",
    "content_policy",
    "count",
    "credit",
    "default_views",
    "draw_curves",
    "environment",
    "evaluate",
    "false_discovery",
    "file_name",
    "in_benchmark_order",
    "independent_clusters",
    "intervals",
    "json_lines",
    "known_bucket",
    "load_models",
    "make_ask",
    "page_asset",
    "page_environment",
    "paired_test",
    "percent",
    "percent_interval",
    "points",
    "points_interval",
    "printable",
    "q_values",
    "rated_item",
    "ratio",
    "read_lines",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
    "safe_markdown",
    "sample_items",
    "summarise",
    "without_users",
    "write_reports",
    "write_whole",
]


class _Verb(ModuleType):
    """`palate.evaluate` is a floor of the house and its main verb; calling the floor calls the verb."""

    __call__ = staticmethod(evaluate)


sys.modules[__name__].__class__ = _Verb
