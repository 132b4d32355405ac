"""A report as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path, PurePath

from markupsafe import Markup

from palate.downstream._report._head import Head
from palate.evaluate import Scale, content_policy, figure, figure_interval, page_asset, page_environment

SCORES = Scale(figure, figure_interval, lambda value: f"{value:.4g}".replace("-", "−"))


def report_page(template: Path, head: Head, *, more_style: str = "", **parts: object) -> str:
    """The page as text: a template that extends `report.html.j2`, with what it shows."""
    style, theme = page_asset("page.css") + more_style, page_asset("theme.js")
    page = (
        page_environment(template.parent, Path(__file__).parent)
        .get_template(template.name)
        .render(
            head=head,
            summary=head.summary,
            run_name=PurePath(head.summary.run).name,
            policy=content_policy(style, theme),
            style=Markup(style),
            theme=Markup(theme),
            **parts,
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")
