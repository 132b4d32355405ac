"""A guided run as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path, PurePath

from markupsafe import Markup

from palate.downstream._guide._results import GuideSummary
from palate.downstream._guide._tables import (
    ACCURACY_NOTE,
    TEXT_NOTE,
    accuracy_tables,
    detail_table,
    difference_table,
    headline,
    interval_table,
    set_up,
    text_tables,
)
from palate.evaluate import content_policy, page_asset, page_environment


def guide_page(summary: GuideSummary) -> str:
    """The page as text."""
    style, theme = page_asset("page.css"), page_asset("theme.js")
    page = (
        page_environment(Path(__file__).parent)
        .get_template("guide.html.j2")
        .render(
            summary=summary,
            run_name=PurePath(summary.run).name,
            headline=headline(summary),
            set_up=set_up(summary),
            accuracies=list(accuracy_tables(summary)),
            accuracy_note=ACCURACY_NOTE,
            texts=list(text_tables(summary)),
            text_note=TEXT_NOTE,
            others=list(filter(None, (interval_table(summary), detail_table(summary), difference_table(summary)))),
            policy=content_policy(style, theme),
            style=Markup(style),
            theme=Markup(theme),
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")
