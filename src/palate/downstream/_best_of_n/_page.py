"""A best-of-N run as one self-contained web page, which asks nothing of the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from palate.downstream._best_of_n._results import BonSummary, Curve
from palate.downstream._best_of_n._tables import (
    FOOTNOTE,
    difference_table,
    head,
    reward_tables,
    sample_table,
    score_tables,
)
from palate.downstream._personal import personal_table, view_table
from palate.report import SCORES, Chart, Step, draw_curves, report_page


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to the samples of one policy view: the critic's score and the reward, against k."""

    title: str
    scores: Chart | None
    rewards: Chart | None


def best_of_n_page(summary: BonSummary) -> str:
    """The page as text."""
    return report_page(
        Path(__file__).with_name("best_of_n.html.j2"),
        head(summary),
        sections=list(_sections(summary)),
        scores=list(score_tables(summary)),
        others=[
            *filter(None, [personal_table(summary.personal)]),
            *reward_tables(summary),
            *filter(None, [difference_table(summary), sample_table(summary), view_table(summary.shown)]),
        ],
        footnote=FOOTNOTE,
    )


def _sections(summary: BonSummary) -> Iterator[Section]:
    several = len({curve.view for curve in summary.curves if curve.view}) > 1
    for one in summary.policies:
        curves = [curve for curve in summary.curves if curve.policy_view == one.policy_view]
        yield Section(
            title=f"The policy sees {one.policy_view}",
            scores=draw_curves(
                {_name(curve, several): _scores(curve) for curve in curves if curve.n},
                SCORES,
                title=f"The critic's score of the choice, policy seeing {one.policy_view}",
                axis="k, the number of samples to choose from",
                step="{} samples",
            ),
            rewards=draw_curves(
                {_name(curve, several): _rewards(curve) for curve in curves if curve.n and curve.kind == "model"},
                SCORES,
                title=f"The reward of the choice in standard deviations, policy seeing {one.policy_view}",
                axis="k, the number of samples to choose from",
                step="{} samples",
            ),
        )


def _name(curve: Curve, several: bool) -> str:
    """Models come under their view where there are several, and never under the name of what stands beside them."""
    if curve.kind != "model":
        return f"({curve.chooser})"
    return f"{curve.chooser}, {curve.view}" if several else curve.chooser


def _scores(curve: Curve) -> list[Step]:
    return [Step(point.k, point.score, point.low, point.high) for point in curve.points if point.score is not None]


def _rewards(curve: Curve) -> list[Step]:
    return [Step(point.k, point.reward) for point in curve.points if point.reward is not None]
