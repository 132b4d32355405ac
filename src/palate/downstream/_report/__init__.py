"""What the reports of all runs of this floor share: a head, findings and tables, for terminal, Markdown and page."""

from palate.downstream._report._files import write_report
from palate.downstream._report._head import Head
from palate.downstream._report._markdown import markdown_head, markdown_section
from palate.downstream._report._page import SCORES, report_page
from palate.downstream._report._terminal import print_findings, print_head, print_section
from palate.downstream._report._words import change_with_interval, commonest

__all__ = [
    "SCORES",
    "Head",
    "change_with_interval",
    "commonest",
    "markdown_head",
    "markdown_section",
    "print_findings",
    "print_head",
    "print_section",
    "report_page",
    "write_report",
]
