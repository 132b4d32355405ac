"""Guided decoding and policy accuracy: what a reward model does to text while it is being written."""

from palate.downstream._guide._files import write_guide
from palate.downstream._guide._guide import guide
from palate.downstream._guide._guiding import Guiding
from palate.downstream._guide._markdown import guide_markdown
from palate.downstream._guide._page import guide_page
from palate.downstream._guide._results import GuideSummary
from palate.downstream._guide._run import GuideRun
from palate.downstream._guide._summary import summarise_guide
from palate.downstream._guide._terminal import print_guide
from palate.downstream._guide._tilt import tilted

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
