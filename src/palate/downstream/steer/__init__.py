"""Pref-LaMP's table: every way of steering a policy beside what the user really wrote."""

from palate.downstream.steer._files import write_steer
from palate.downstream.steer._markdown import steer_markdown
from palate.downstream.steer._page import steer_page
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._run import SteerRun
from palate.downstream.steer._steer import steer
from palate.downstream.steer._summary import summarise_steer
from palate.downstream.steer._terminal import print_steer

__all__ = [
    "SteerRun",
    "SteerSummary",
    "print_steer",
    "steer",
    "steer_markdown",
    "steer_page",
    "summarise_steer",
    "write_steer",
]
