"""From columns of items to numbers: clusters of users, intervals, paired tests, false discovery, agreement."""

from palate.stats._accuracy import brier, credit, expected_calibration_error
from palate.stats._agreement import (
    Agreement,
    Detectable,
    Pairs,
    PredictorTest,
    agreements,
    compare_predictors,
)
from palate.stats._association import Coefficient
from palate.stats._clusters import FEWEST_UNITS, Resample, Units, independent_clusters, item_texts, shared_units
from palate.stats._differences import Figure, PairedTest, Range, figures, mean_totals, paired_tests
from palate.stats._families import FamilyAgreement, FamilyPart, by_family
from palate.stats._intervals import (
    ANYWHERE,
    GAIN,
    SHARE,
    Crossed,
    Estimate,
    Floats,
    PairedDifference,
    Quantity,
    Resamples,
    Statistic,
    cluster_totals,
    false_discovery,
    interval,
    intervals,
    paired_differences,
    ratio,
    ratio_interval,
)
from palate.stats._scores import Scores
from palate.stats._worst import Halves, WorstTenth

__all__ = [
    "ANYWHERE",
    "FEWEST_UNITS",
    "GAIN",
    "SHARE",
    "Agreement",
    "Coefficient",
    "Crossed",
    "Detectable",
    "Estimate",
    "FamilyAgreement",
    "FamilyPart",
    "Figure",
    "Floats",
    "Halves",
    "PairedDifference",
    "PairedTest",
    "Pairs",
    "PredictorTest",
    "Quantity",
    "Range",
    "Resample",
    "Resamples",
    "Scores",
    "Statistic",
    "Units",
    "WorstTenth",
    "agreements",
    "brier",
    "by_family",
    "cluster_totals",
    "compare_predictors",
    "credit",
    "expected_calibration_error",
    "false_discovery",
    "figures",
    "independent_clusters",
    "interval",
    "intervals",
    "item_texts",
    "mean_totals",
    "paired_differences",
    "paired_tests",
    "ratio",
    "ratio_interval",
    "shared_units",
]
