"""The main experiment: how often reward models know what individual users prefer."""

from palate.evaluation._asks import in_benchmark_order, make_ask
from palate.evaluation._compare import Comparison as RunComparison
from palate.evaluation._compare import compare
from palate.evaluation._document import evaluation_document, print_evaluation
from palate.evaluation._evaluate import default_views, evaluate, rate_items, rated_item
from palate.evaluation._files import item_cards, without_users, write_reports
from palate.evaluation._grouping import MOST_GROUPS, SMALLEST_GROUP, Grouping, Mask, groupings, shown_groups
from palate.evaluation._metrics import summarise
from palate.evaluation._paired import few_carry, gains
from palate.evaluation._ratings import Ratings
from palate.evaluation._reading import is_clear_gain
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
from palate.evaluation._run import RatedItem, RatingLine, Run, RunWriter, ViewLine
from palate.evaluation._settings import Settings
from palate.evaluation._shown import view_warnings

__all__ = [
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
    "Run",
    "RunComparison",
    "RunWriter",
    "Settings",
    "Slice",
    "Summary",
    "UserAccuracy",
    "ViewLine",
    "compare",
    "default_views",
    "evaluate",
    "evaluation_document",
    "few_carry",
    "gains",
    "groupings",
    "in_benchmark_order",
    "is_clear_gain",
    "item_cards",
    "make_ask",
    "print_evaluation",
    "rate_items",
    "rated_item",
    "shown_groups",
    "summarise",
    "view_warnings",
    "without_users",
    "write_reports",
]
