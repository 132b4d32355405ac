"""Best-of-N, and the in-context baseline: sample once, choose by reward, let a critic say what the choice is worth."""

from palate.downstream.best_of_n._best_of_n import BEST_OF_N, best_of_n
from palate.downstream.best_of_n._results import BestOfNSummary

__all__ = ["BEST_OF_N", "BestOfNSummary", "best_of_n"]
