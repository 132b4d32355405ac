"""A personalised benchmark from raw histories: select, write, filter, split, and test before release."""

from palate.build._build import build
from palate.build._estimate import Estimate, estimate
from palate.build._experiment import BUILD, BuildSummary
from palate.build._gate import GateResult, Measure, run_gate
from palate.build._generate import BUILD_STAGES, Reply, StageContext
from palate.build._plan import BuildPlanError, Gate, Plan, example_plan, example_plans, read_plan
from palate.build._records import CandidateLine, RubricLine, SelectedItem, VerdictLine, Yield

__all__ = [
    "BUILD",
    "BUILD_STAGES",
    "BuildPlanError",
    "BuildSummary",
    "CandidateLine",
    "Estimate",
    "Gate",
    "GateResult",
    "Measure",
    "Plan",
    "Reply",
    "RubricLine",
    "SelectedItem",
    "StageContext",
    "VerdictLine",
    "Yield",
    "build",
    "estimate",
    "example_plan",
    "example_plans",
    "read_plan",
    "run_gate",
]
