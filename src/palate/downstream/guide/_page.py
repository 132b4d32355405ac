"""A guided run as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path

from palate.downstream._items import view_table
from palate.downstream._personal import personal_table
from palate.downstream.guide._picture import accuracy_plots, score_plots
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._tables import (
    ACCURACY_NOTE,
    TEXT_NOTE,
    accuracy_tables,
    detail_table,
    difference_table,
    head,
    interval_table,
    text_tables,
)
from palate.report import report_page


def guide_page(summary: GuideSummary) -> str:
    """The page as text."""
    return report_page(
        Path(__file__).with_name("guide.html.j2"),
        head(summary),
        accuracy_plots=accuracy_plots(summary),
        accuracies=list(accuracy_tables(summary)),
        accuracy_note=ACCURACY_NOTE,
        score_plots=score_plots(summary),
        texts=list(text_tables(summary)),
        text_note=TEXT_NOTE,
        others=list(
            filter(
                None,
                (
                    personal_table(summary.personal),
                    interval_table(summary),
                    detail_table(summary),
                    difference_table(summary),
                    view_table(summary.shown),
                ),
            )
        ),
    )
