"""The table of steering as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path, PurePath

from markupsafe import Markup

from palate.downstream._steer._picture import pictures
from palate.downstream._steer._results import SteerSummary
from palate.downstream._steer._tables import FOOTNOTE, difference_table, headline, main_table, parts_table, set_up
from palate.evaluate import content_policy, page_asset, page_environment


def steer_page(summary: SteerSummary) -> str:
    """The page as text."""
    style, theme = page_asset("page.css"), page_asset("theme.js")
    page = (
        page_environment(Path(__file__).parent)
        .get_template("steer.html.j2")
        .render(
            summary=summary,
            run_name=PurePath(summary.run).name,
            headline=headline(summary),
            set_up=set_up(summary),
            main=main_table(summary),
            pictures=pictures(summary),
            others=list(filter(None, (difference_table(summary), parts_table(summary)))),
            footnote=FOOTNOTE,
            policy=content_policy(style, theme),
            style=Markup(style),
            theme=Markup(theme),
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")
