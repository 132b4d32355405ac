"""The main experiment: how often reward models know what individual users prefer."""

from palate.evaluation._asks import in_benchmark_order, make_ask
from palate.evaluation._compare import Comparison as RunComparison
from palate.evaluation._compare import compare
from palate.evaluation._document import evaluation_document
from palate.evaluation._evaluate import default_views, evaluate, rate_comparisons
from palate.evaluation._experiment import EVALUATION
from palate.evaluation._grouping import MOST_GROUPS, SMALLEST_GROUP, Grouping, Mask, groupings, shown_groups
from palate.evaluation._items import item_cards, outcome_of
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
from palate.evaluation._run import ITEMS, RATINGS, RatedItem, RatingLine, Settings, rated_item
from palate.evaluation._shown import view_warnings

__all__ = [
    "EVALUATION",
    "ITEMS",
    "MOST_GROUPS",
    "RATINGS",
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
    "outcome_of",
    "rate_comparisons",
    "rated_item",
    "shown_groups",
    "summarise",
    "view_warnings",
]
