"""A report as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path, PurePath

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palate.report._curve import Scale
from palate.report._head import Head
from palate.report._numbers import (
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

_FOLDER = Path(__file__).parent
SCORES = Scale(figure, figure_interval, lambda value: f"{value:.4g}".replace("-", "−"))


def report_page(template: Path, head: Head, *, more_style: str = "", **parts: object) -> str:
    """The page as text: a template that extends `report.html.j2`, with what it shows."""
    style, theme = page_asset("page.css") + more_style, page_asset("theme.js")
    page = (
        page_environment(template.parent)
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


def content_policy(style: str, *scripts: str) -> str:
    """A content security policy that lets nothing in but the page's own style and scripts."""
    allowed = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def page_asset(name: str) -> str:
    """A style or script that a page carries inside itself."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def page_environment(*folders: Path) -> Environment:
    """Where templates find the plots, and how numbers are written in them; other folders may add their own."""
    environment = Environment(
        loader=FileSystemLoader([*folders, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (percent, percent_interval, points, points_interval, chance_of_error, count)
    environment.globals.update({function.__name__: function for function in written})
    environment.globals["clear"] = CLEAR
    return environment
