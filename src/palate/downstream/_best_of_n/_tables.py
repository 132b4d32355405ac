"""The tables of a best-of-N run as words, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._best_of_n._results import BonDifference, BonSummary, Choice, Curve
from palate.report import ABSENT, CLEAR, Head, Table, chance_of_error, count, figure, figure_interval, percent

FOOTNOTE = (
    "Scores are the critic's, and k = 1 is the policy alone. Every column is the exact expectation over all subsets "
    "of k samples. Over random: at the largest k, * is q < .05 over all differences of the run. Oracle's gain: how "
    "much of the way from random to the critic's own choice is gone. With several strangers, the mean over them. "
    "Intervals are 95% and resample users."
)


def head(summary: BonSummary) -> Head:
    """Who wrote, how, and who marked."""
    size = f"{count(summary.items, 'prompt')}, {count(summary.users, 'user')}, seed {summary.seed}"
    return Head(
        summary=summary,
        name=f"Best of {summary.drawn}",
        size=size,
        set_up=f"{summary.policy} writes {count(summary.drawn, 'sample')} for each prompt "
        f"(temperature {summary.temperature:g}, top_p {summary.top_p:g}, at most {summary.tokens} tokens); "
        f"{summary.critic} marks them.",
        facts={"Size": size, "Policy": summary.policy, "Critic": summary.critic},
        unfinished="Not everything is drawn, rated and marked yet; the numbers will change.",
    )


def score_tables(summary: BonSummary) -> Iterator[Table]:
    """One for each policy view: choosers down, k across."""
    views = list(dict.fromkeys(curve.view for curve in summary.curves if curve.view))
    several = len(views) > 1
    counted = any(curve.n != summary.items for curve in summary.curves)
    for one in summary.policies:
        curves = [curve for curve in summary.curves if curve.policy_view == one.policy_view]
        steps = [point.k for point in curves[0].points]
        names = _names("chosen by", "seeing", several)
        numbers = (*(f"k = {k}" for k in steps), f"95% at {steps[-1]}", "over\nrandom", "oracle's\ngain")
        seen = "" if several else f"; reward models see {views[0]}"
        yield Table(
            title=f"The policy sees {one.policy_view}{seen}",
            titles=(*names, *numbers, *(["n"] if counted else [])),
            words=len(names),
            rows=[
                (
                    *_names(curve.chooser, curve.view or "", several),
                    *_numbers(summary, curve),
                    *([f"{curve.n:,}"] if counted else []),
                )
                for curve in curves
            ],
        )


def _names(chooser: str, view: str, several: bool) -> tuple[str, ...]:
    """Where all reward models see the same, the title says it."""
    return (chooser, view) if several else (chooser,)


def reward_tables(summary: BonSummary) -> Iterator[Table]:
    """How the reward rises with k, beside the bound on how far the choice is from the policy."""
    models = [curve for curve in summary.curves if curve.kind == "model"]
    if not models:
        return
    steps = models[0].points
    bound = ("at most so many nats from the policy", "", "", *(f"{point.divergence:.2f}" for point in steps))
    yield Table(
        title="The reward of the choice, in standard deviations over an item's samples",
        titles=("chosen by", "seeing", "policy sees", *(f"k = {point.k}" for point in steps)),
        words=3,
        rows=[
            *(
                (curve.chooser, curve.view or "", curve.policy_view, *(figure(point.reward) for point in curve.points))
                for curve in models
            ),
            bound,
        ],
    )


def difference_table(summary: BonSummary) -> Table | None:
    """Every paired difference."""
    if not summary.differences:
        return None
    return Table(
        title="Differences",
        titles=("one", "minus", "difference", "95%", "q", "users", "n"),
        words=2,
        rows=[
            (
                choice(one.one),
                choice(one.other),
                figure(one.difference, sign=True) + ("*" if one.q < CLEAR else ""),
                figure_interval(one.low, one.high, sign=True),
                chance_of_error(one.q),
                f"{one.users:,}",
                f"{one.n:,}",
            )
            for one in summary.differences
        ],
    )


def sample_table(summary: BonSummary) -> Table:
    """What the policy wrote."""
    return Table(
        title="Samples",
        titles=("policy sees", "prompts", "failed", "texts", "empty", "cut off", "distinct", "mean tokens"),
        words=1,
        rows=[
            (
                one.policy_view,
                f"{one.sampled:,}",
                f"{one.failed:,}",
                f"{one.samples:,}",
                f"{one.empty:,}",
                f"{one.unfinished:,}",
                percent(one.distinct),
                ABSENT if one.mean_tokens is None else f"{one.mean_tokens:.1f}",
            )
            for one in summary.policies
        ],
    )


def choice(one: Choice) -> str:
    """Who chose among how many, of which samples."""
    if one.k == 1 or one.chooser == "random":
        return f"policy alone, seeing {one.policy_view}"
    seeing = f" seeing {one.view}" if one.view else ""
    return f"best of {one.k} by {one.chooser}{seeing}, policy seeing {one.policy_view}"


def _numbers(summary: BonSummary, curve: Curve) -> tuple[str, ...]:
    last = curve.points[-1]
    return (
        *(figure(point.score) for point in curve.points),
        figure_interval(last.low, last.high),
        _over_random(summary, curve),
        percent(last.oracle_share.value) if last.oracle_share and curve.kind in ("model", "longest") else "",
    )


def _over_random(summary: BonSummary, curve: Curve) -> str:
    found = next((one for one in summary.differences if _is_over_random(one, curve)), None)
    return "" if found is None else figure(found.difference, sign=True) + ("*" if found.q < CLEAR else " ")


def _is_over_random(one: BonDifference, curve: Curve) -> bool:
    mine = (one.one.policy_view, one.one.chooser, one.one.view)
    return one.about == "over random" and mine == (curve.policy_view, curve.chooser, curve.view)
