"""The forms of the report: terminal, Markdown, CSV and a web page."""

from palate.evaluate._report._csv import COLUMNS, render_csv
from palate.evaluate._report._curve import CurvePlot, Scale, Step, draw_curves
from palate.evaluate._report._markdown import render_markdown, safe_markdown
from palate.evaluate._report._numbers import (
    CLEAR,
    chance_of_error,
    count,
    percent,
    percent_interval,
    points,
    points_interval,
)
from palate.evaluate._report._page import (
    BrowsedItem,
    ItemRating,
    content_policy,
    page_asset,
    page_environment,
    render_page,
)
from palate.evaluate._report._reading import Reading, Sentence, readings
from palate.evaluate._report._terminal import printable, render_terminal

__all__ = [
    "CLEAR",
    "COLUMNS",
    "BrowsedItem",
    "CurvePlot",
    "ItemRating",
    "Reading",
    "Scale",
    "Sentence",
    "Step",
    "chance_of_error",
    "content_policy",
    "count",
    "draw_curves",
    "page_asset",
    "page_environment",
    "percent",
    "percent_interval",
    "points",
    "points_interval",
    "printable",
    "readings",
    "render_csv",
    "render_markdown",
    "render_page",
    "render_terminal",
    "safe_markdown",
]
