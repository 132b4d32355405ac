"""A training run as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from palate.downstream._items import view_table
from palate.downstream._personal import personal_table
from palate.downstream.ppo._results import PpoSummary
from palate.downstream.ppo._tables import (
    CURVES,
    curve_table,
    footnote,
    head,
    held_out_table,
    parts_table,
    view_scores_table,
)
from palate.report import SCORES, Chart, Step, draw_curves, report_page

MOST_POINTS = 12
"""Of a curve: each stands for the mean of as many steps."""
STYLE = """
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem; }
.curves h3 { margin: 1rem 0 0; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def ppo_page(summary: PpoSummary) -> str:
    """The page as text."""
    more = (
        view_scores_table(summary),
        personal_table(summary.personal),
        parts_table(summary),
        view_table(summary.shown),
    )
    return report_page(
        Path(__file__).with_name("ppo.html.j2"),
        head(summary),
        more_style=STYLE,
        held_out=held_out_table(summary),
        more=list(filter(None, more)),
        curves=curves(summary),
        training=curve_table(summary),
        examples=summary.examples,
        footnote=footnote(summary),
    )


def curves(summary: PpoSummary) -> list[Chart]:
    """One plot for each thing that is watched; nothing for what has no numbers, or always the same one."""
    found = []
    parts = [part for part in np.array_split(np.arange(len(summary.curve)), MOST_POINTS) if len(part)]
    for name, value in CURVES.items():
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
            title=name,
            axis="step",
            step="{} steps",
        )
        if plot is not None:
            found.append(plot)
    return found
