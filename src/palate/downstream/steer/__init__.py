"""Every way of steering a policy in one table, against what the user really wrote."""

from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._steer import STEER, steer

__all__ = ["STEER", "SteerSummary", "steer"]
