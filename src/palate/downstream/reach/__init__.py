"""How far a policy could follow a reward: one small step along its gradient, read on people who gave none of it."""

from palate.downstream.reach._reach import REACH, check_sketch, reach
from palate.downstream.reach._results import ReachSummary

__all__ = ["REACH", "ReachSummary", "check_sketch", "reach"]
