"""The forms of the report: terminal, Markdown, CSV and a web page."""

from palate.evaluate._report._csv import COLUMNS, render_csv
from palate.evaluate._report._markdown import render_markdown
from palate.evaluate._report._page import BrowsedItem, ItemRating, render_page
from palate.evaluate._report._reading import Reading, Sentence, readings
from palate.evaluate._report._terminal import render_terminal

__all__ = [
    "COLUMNS",
    "BrowsedItem",
    "ItemRating",
    "Reading",
    "Sentence",
    "readings",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
]
