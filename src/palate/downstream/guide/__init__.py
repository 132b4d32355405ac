"""Guided decoding and policy accuracy: what a reward model does to text while it is being written."""

from palate.downstream.guide._guide import GUIDE, guide
from palate.downstream.guide._guiding import Guiding, tilted
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._summary import summarise_guide

__all__ = ["GUIDE", "GuideSummary", "Guiding", "guide", "summarise_guide", "tilted"]
