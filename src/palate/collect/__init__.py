"""Ask real people, in the browser."""

from palate.collect._active import choose_next, pair_features, weighted_accuracy
from palate.collect._agreement import cohen_kappa, krippendorff_alpha, measure_agreement
from palate.collect._export import benchmark_of, export, export_exchange, export_records, export_trl
from palate.collect._import import items_to_validate, read_items
from palate.collect._import_answers import import_label_studio, import_potato
from palate.collect._plan import Assumptions, Design, detectable, make_plan, people_needed, plan_table
from palate.collect._project import Project, ProjectError, read_project
from palate.collect._quality import measure_quality
from palate.collect._records import Answer, Collected, Item, Participant, SurveyAnswer
from palate.collect._validation import validate
from palate.collect._values import PORTRAITS, score_values, values_of

__all__ = [
    "PORTRAITS",
    "Answer",
    "Assumptions",
    "Collected",
    "Design",
    "Item",
    "Participant",
    "Project",
    "ProjectError",
    "SurveyAnswer",
    "benchmark_of",
    "choose_next",
    "cohen_kappa",
    "detectable",
    "export",
    "export_exchange",
    "export_records",
    "export_trl",
    "import_label_studio",
    "import_potato",
    "items_to_validate",
    "krippendorff_alpha",
    "make_plan",
    "measure_agreement",
    "measure_quality",
    "pair_features",
    "people_needed",
    "plan_table",
    "read_items",
    "read_project",
    "score_values",
    "validate",
    "values_of",
    "weighted_accuracy",
]
