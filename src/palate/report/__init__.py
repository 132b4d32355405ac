"""Tables, findings and plots, for terminal, Markdown and one web page."""

from palate.report._curve import IN_PERCENT, Across, CurvePlot, Scale, Step, draw_curves
from palate.report._findings import Finding, Severity, findings_grid, warnings_first
from palate.report._head import Head
from palate.report._markdown import markdown_head, markdown_section
from palate.report._numbers import (
    ABSENT,
    CLEAR,
    MINUS,
    chance_of_error,
    count,
    figure,
    figure_interval,
    percent,
    percent_interval,
    points,
    points_interval,
)
from palate.report._page import SCORES, content_policy, page_asset, page_environment, report_page
from palate.report._printable import printable
from palate.report._table import ROOMY, Table, markdown_table, safe_markdown, terminal_table
from palate.report._terminal import print_findings, print_head, print_section
from palate.report._words import change_with_interval, commonest

__all__ = [
    "ABSENT",
    "CLEAR",
    "IN_PERCENT",
    "MINUS",
    "ROOMY",
    "SCORES",
    "Across",
    "CurvePlot",
    "Finding",
    "Head",
    "Scale",
    "Severity",
    "Step",
    "Table",
    "chance_of_error",
    "change_with_interval",
    "commonest",
    "content_policy",
    "count",
    "draw_curves",
    "figure",
    "figure_interval",
    "findings_grid",
    "markdown_head",
    "markdown_section",
    "markdown_table",
    "page_asset",
    "page_environment",
    "percent",
    "percent_interval",
    "points",
    "points_interval",
    "print_findings",
    "print_head",
    "print_section",
    "printable",
    "report_page",
    "safe_markdown",
    "terminal_table",
    "warnings_first",
]
