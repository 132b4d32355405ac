"""The table of steering as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path

from palate.downstream._personal import personal_table, view_table
from palate.downstream.steer._picture import pictures
from palate.downstream.steer._results import SteerSummary
from palate.downstream.steer._tables import FOOTNOTE, difference_table, head, main_table, parts_table
from palate.report import report_page


def steer_page(summary: SteerSummary) -> str:
    """The page as text."""
    return report_page(
        Path(__file__).with_name("steer.html.j2"),
        head(summary),
        main=main_table(summary),
        pictures=pictures(summary),
        others=list(
            filter(
                None,
                (
                    personal_table(summary.personal),
                    difference_table(summary),
                    view_table(summary.shown),
                    parts_table(summary),
                ),
            )
        ),
        footnote=FOOTNOTE,
    )
