"""A training run as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path, PurePath

import numpy as np
from markupsafe import Markup

from palate.downstream._best_of_n._page import SCORES
from palate.downstream._ppo._results import PpoSummary
from palate.downstream._ppo._tables import CURVES, FOOTNOTE, curve_table, headline, held_out_table, set_up
from palate.evaluate import CurvePlot, Step, content_policy, draw_curves, page_asset, page_environment

MOST_POINTS = 12
"""Of a curve: each stands for the mean of as many steps."""
STYLE = """
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem; }
.curves h3 { margin: 1rem 0 0; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def ppo_page(summary: PpoSummary) -> str:
    """The page as text."""
    style, theme = page_asset("page.css") + STYLE, page_asset("theme.js")
    page = (
        page_environment(Path(__file__).parent)
        .get_template("ppo.html.j2")
        .render(
            summary=summary,
            run_name=PurePath(summary.run).name,
            headline=headline(summary),
            set_up=set_up(summary),
            held_out=held_out_table(summary),
            curves=curves(summary),
            training=curve_table(summary),
            footnote=FOOTNOTE,
            policy=content_policy(style, theme),
            style=Markup(style),
            theme=Markup(theme),
        )
    )
    # A lone surrogate cannot be written to a file; it becomes a question mark here.
    return page.encode("utf-8", "replace").decode("utf-8")


def curves(summary: PpoSummary) -> list[CurvePlot]:
    """One plot for each thing that is watched; nothing for what has no numbers, or always the same one."""
    found = []
    parts = [part for part in np.array_split(np.arange(len(summary.curve)), MOST_POINTS) if len(part)]
    for place, (name, value) in enumerate(CURVES.items()):
        steps = []
        for part in parts:
            values = [one for index in part if (one := value(summary.curve[index])) is not None]
            if values:
                steps.append(Step(summary.curve[part[-1]].step, float(np.mean(values))))
        if len({step.value for step in steps}) < 2 <= len(parts):
            continue
        plot = draw_curves(
            {name.partition(",")[0]: steps} if steps else {},
            SCORES,
            key=f"curve-{place}",
            title=name,
            axis="step",
            unit="steps",
        )
        if plot is not None:
            found.append(plot)
    return found
