"""Guided decoding and policy accuracy: what a reward model does to text while it is being written."""

from palate.downstream.guide._files import write_guide
from palate.downstream.guide._guide import guide
from palate.downstream.guide._guiding import Guiding
from palate.downstream.guide._markdown import guide_markdown
from palate.downstream.guide._page import guide_page
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._run import GuideRun
from palate.downstream.guide._summary import summarise_guide
from palate.downstream.guide._terminal import print_guide
from palate.downstream.guide._tilt import tilted

__all__ = [
    "GuideRun",
    "GuideSummary",
    "Guiding",
    "guide",
    "guide_markdown",
    "guide_page",
    "print_guide",
    "summarise_guide",
    "tilted",
    "write_guide",
]
