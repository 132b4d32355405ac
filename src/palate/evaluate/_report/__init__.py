"""The forms of the report: terminal, Markdown, CSV and a web page."""

from palate.evaluate._report._csv import COLUMNS, render_csv
from palate.evaluate._report._curve import IN_PERCENT, Across, CurvePlot, Scale, Step, draw_curves
from palate.evaluate._report._findings import Finding, Severity, findings_grid, warnings_first
from palate.evaluate._report._markdown import render_markdown
from palate.evaluate._report._numbers import (
    ABSENT,
    CLEAR,
    chance_of_error,
    count,
    figure,
    figure_interval,
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
from palate.evaluate._report._reading import Reading, Sentence, is_clear_gain, readings
from palate.evaluate._report._table import ROOMY, Table, markdown_table, safe_markdown, terminal_table
from palate.evaluate._report._terminal import printable, render_terminal

__all__ = [
    "ABSENT",
    "CLEAR",
    "COLUMNS",
    "IN_PERCENT",
    "ROOMY",
    "Across",
    "BrowsedItem",
    "CurvePlot",
    "Finding",
    "ItemRating",
    "Reading",
    "Scale",
    "Sentence",
    "Severity",
    "Step",
    "Table",
    "chance_of_error",
    "content_policy",
    "count",
    "draw_curves",
    "figure",
    "figure_interval",
    "findings_grid",
    "is_clear_gain",
    "markdown_table",
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
    "terminal_table",
    "warnings_first",
]
