"""The forms of the report: terminal, Markdown, CSV and a web page."""

from palate.evaluation._report._csv import COLUMNS, render_csv
from palate.evaluation._report._markdown import render_markdown
from palate.evaluation._report._page import BrowsedItem, ItemRating, render_page
from palate.evaluation._report._reading import Reading, Sentence, is_clear_gain, readings
from palate.evaluation._report._terminal import render_terminal

__all__ = [
    "COLUMNS",
    "BrowsedItem",
    "ItemRating",
    "Reading",
    "Sentence",
    "is_clear_gain",
    "readings",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
]
