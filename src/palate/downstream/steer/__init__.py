"""Every way of steering a policy in one table, against what the user really wrote."""

from palate.downstream.steer._experiment import STEER
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._steer import steer

__all__ = ["STEER", "SteerSummary", "steer"]
