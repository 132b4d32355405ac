"""The main experiment: how often reward models know what individual users prefer."""

from palate.evaluation._compare import RunComparison, compare
from palate.evaluation._document import evaluation_document
from palate.evaluation._evaluate import EVALUATION, default_views, evaluate, rate_comparisons
from palate.evaluation._findings import is_clear_gain
from palate.evaluation._items import item_cards, item_rating, outcome_of
from palate.evaluation._metrics import calibration_of, summarise
from palate.evaluation._order import is_control, view_kind
from palate.evaluation._paired import few_carry, gains
from palate.evaluation._ratings import Ratings
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
from palate.evaluation._run import (
    COSTS,
    ITEMS,
    RATINGS,
    Cost,
    RatedItem,
    RatingLine,
    Settings,
    in_benchmark_order,
    make_ask,
    rated_item,
)
from palate.evaluation._slices import (
    MOST_GROUPS,
    SMALLEST_GROUP,
    Grouping,
    Mask,
    groupings,
    measure_slices,
    shown_groups,
)
from palate.evaluation._warnings import view_warnings

__all__ = [
    "COSTS",
    "EVALUATION",
    "ITEMS",
    "MOST_GROUPS",
    "RATINGS",
    "SMALLEST_GROUP",
    "Calibration",
    "Cost",
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
    "calibration_of",
    "compare",
    "default_views",
    "evaluate",
    "evaluation_document",
    "few_carry",
    "gains",
    "groupings",
    "in_benchmark_order",
    "is_clear_gain",
    "is_control",
    "item_cards",
    "item_rating",
    "make_ask",
    "measure_slices",
    "outcome_of",
    "rate_comparisons",
    "rated_item",
    "shown_groups",
    "summarise",
    "view_kind",
    "view_warnings",
]
