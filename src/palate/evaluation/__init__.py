"""The main experiment: how often reward models know what individual users prefer."""

from palate.evaluation._asks import in_benchmark_order, make_ask
from palate.evaluation._compare import Comparison as RunComparison
from palate.evaluation._compare import compare
from palate.evaluation._evaluate import default_views, evaluate, rate_comparisons
from palate.evaluation._experiment import EVALUATION
from palate.evaluation._files import browsed_items, without_users, write_reports
from palate.evaluation._grouping import MOST_GROUPS, SMALLEST_GROUP, Grouping, Mask, groupings, shown_groups
from palate.evaluation._metrics import summarise
from palate.evaluation._paired import few_carry, gains
from palate.evaluation._ratings import Ratings
from palate.evaluation._report import is_clear_gain, render_csv, render_markdown, render_page, render_terminal
from palate.evaluation._results import (
    Calibration,
    Difference,
    Gain,
    Orders,
    OverBaseline,
    Result,
    Slice,
    Summary,
    UserAccuracy,
)
from palate.evaluation._run import ITEMS, RATINGS, RatedItem, RatingLine, Settings, rated_item
from palate.evaluation._shown import view_warnings

__all__ = [
    "EVALUATION",
    "ITEMS",
    "RATINGS",
    "rate_comparisons",
    "MOST_GROUPS",
    "SMALLEST_GROUP",
    "Calibration",
    "Difference",
    "Gain",
    "Grouping",
    "Mask",
    "Orders",
    "OverBaseline",
    "RatedItem",
    "RatingLine",
    "Ratings",
    "Result",
    "RunComparison",
    "Settings",
    "Slice",
    "Summary",
    "UserAccuracy",
    "browsed_items",
    "compare",
    "default_views",
    "evaluate",
    "few_carry",
    "gains",
    "groupings",
    "in_benchmark_order",
    "is_clear_gain",
    "make_ask",
    "rated_item",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
    "shown_groups",
    "summarise",
    "view_warnings",
    "without_users",
    "write_reports",
]
