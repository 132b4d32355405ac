"""Runs, metrics, statistics and reports."""

import sys
from types import ModuleType

from palate.evaluate._asks import in_benchmark_order, make_ask
from palate.evaluate._asks import sample as sample_items
from palate.evaluate._compare import Comparison as RunComparison
from palate.evaluate._compare import compare
from palate.evaluate._evaluate import LoadedModel, Report, default_views, evaluate, load_models, rate_items, rated_item
from palate.evaluate._files import browsed_items, without_users, write_reports
from palate.evaluate._grouping import MOST_GROUPS, SMALLEST_GROUP, Grouping, Mask, groupings, shown_groups
from palate.evaluate._lines import Appender, Ledger, Needs, bad_line, fault_of
from palate.evaluate._metrics import summarise
from palate.evaluate._paired import few_carry, gains
from palate.evaluate._ratings import Ratings, independent_clusters
from palate.evaluate._repair import Dropped, repair_ledgers
from palate.evaluate._report import (
    ABSENT,
    CLEAR,
    IN_PERCENT,
    ROOMY,
    Across,
    CurvePlot,
    Finding,
    Scale,
    Severity,
    Step,
    Table,
    chance_of_error,
    content_policy,
    count,
    draw_curves,
    figure,
    figure_interval,
    findings_grid,
    is_clear_gain,
    markdown_table,
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
    terminal_table,
    warnings_first,
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
from palate.evaluate._run import RatedItem, RatingLine, Run, RunWriter, ViewLine
from palate.evaluate._run_folder import LOST, RunFolder, json_lines, write_whole
from palate.evaluate._settings import HashedSettings, ModelSettings, Settings, environment, file_name
from palate.evaluate._shown import view_warnings
from palate.evaluate._statistics import (
    GAIN,
    SHARE,
    Floats,
    PairedDifference,
    Quantity,
    Resamples,
    cluster_totals,
    credit,
    false_discovery,
    intervals,
    paired_differences,
    ratio,
)
from palate.evaluate._units import Resample

__all__ = [
    "ABSENT",
    "CLEAR",
    "GAIN",
    "IN_PERCENT",
    "LOST",
    "MOST_GROUPS",
    "ROOMY",
    "SHARE",
    "SMALLEST_GROUP",
    "Across",
    "Appender",
    "Calibration",
    "CurvePlot",
    "Difference",
    "Dropped",
    "Estimate",
    "Finding",
    "Floats",
    "Gain",
    "Grouping",
    "HashedSettings",
    "Ledger",
    "LoadedModel",
    "Mask",
    "ModelSettings",
    "Needs",
    "Orders",
    "OverBaseline",
    "PairedDifference",
    "Quantity",
    "RatedItem",
    "RatingLine",
    "Ratings",
    "Report",
    "Resample",
    "Resamples",
    "Result",
    "Run",
    "RunComparison",
    "RunFolder",
    "RunWriter",
    "Scale",
    "Settings",
    "Severity",
    "Slice",
    "Step",
    "Summary",
    "Table",
    "UserAccuracy",
    "ViewLine",
    "bad_line",
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
    "fault_of",
    "few_carry",
    "figure",
    "figure_interval",
    "file_name",
    "findings_grid",
    "gains",
    "groupings",
    "in_benchmark_order",
    "independent_clusters",
    "intervals",
    "is_clear_gain",
    "json_lines",
    "load_models",
    "make_ask",
    "markdown_table",
    "page_asset",
    "page_environment",
    "paired_differences",
    "percent",
    "percent_interval",
    "points",
    "points_interval",
    "printable",
    "rate_items",
    "rated_item",
    "ratio",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
    "repair_ledgers",
    "safe_markdown",
    "sample_items",
    "shown_groups",
    "summarise",
    "terminal_table",
    "view_warnings",
    "warnings_first",
    "without_users",
    "write_reports",
    "write_whole",
]


class _Verb(ModuleType):
    """`palate.evaluate` is a floor of the house and its main verb; calling the floor calls the verb."""

    __call__ = staticmethod(evaluate)


sys.modules[__name__].__class__ = _Verb
