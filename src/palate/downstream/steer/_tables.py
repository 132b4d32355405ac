"""The tables of steering as words, the same for terminal, Markdown and page."""

from __future__ import annotations

from palate.downstream.steer._results import MEASURES, Measure, SteerDifference, SteerRow, SteerSummary
from palate.report import (
    ABSENT,
    CLEAR,
    Head,
    Table,
    chance_of_error,
    count,
    figure,
    figure_interval,
    percent,
    points,
    points_interval,
)
from palate.stats import Figure

FOOTNOTE = (
    "Reward accuracy: how often the reward model scores the user's own text above the other of its pair. Policy "
    "accuracy: how often the policy, so steered, finds it likelier per token; best-of-N has none. ROUGE and likeness: "
    "how like the written text is to the user's own. The policy alone, sampled, is the mean over all samples, which is "
    "what a random choice among them gives. * is q < .05 against the policy alone with the same decoding, over all "
    "differences of the table. A stranger's view is the mean over several strangers where a text is only chosen or "
    "rated, and of one where it is written. Below each number is its 95% interval, which resamples users."
)


def head(summary: SteerSummary) -> Head:
    """Who wrote, how, and who steered."""
    size = f"{count(summary.items, 'pair')}, {count(summary.users, 'user')}, seed {summary.seed}"
    return Head(
        summary=summary,
        name="Steering",
        size=size,
        set_up=f"{summary.policy} writes {count(summary.samples, 'sample')} for each prompt (temperature "
        f"{summary.temperature:g}, top_p {summary.top_p:g}, at most {summary.tokens} tokens). Reward models see "
        f"{', '.join(summary.views)}; they guide with weight {summary.weight:g} among {summary.top_k} tokens.",
        facts={"Size": size, "Policy": summary.policy},
        unfinished="Not every part is done yet; the numbers will change.",
    )


def main_table(summary: SteerSummary) -> Table:
    """A row for each method; each cell holds a number and, on a second line, its interval."""
    measures = [one for one in MEASURES if any(getattr(row, one) is not None for row in summary.rows)]
    return Table(
        title="What each method reaches",
        titles=("method", *(MEASURES[one].replace(" ", "\n") for one in measures)),
        words=1,
        rows=[(row.label, *(_cell(summary, row, one) for one in measures)) for row in summary.rows],
    )


def _cell(summary: SteerSummary, row: SteerRow, measure: Measure) -> str:
    found: Figure | None = getattr(row, measure)
    if found is None:
        return ABSENT
    share = measure in ("reward", "policy")
    value = percent(found.value) if share else figure(found.value)
    star = "*" if _is_clear(summary, row, measure) else ""
    if found.low is None or found.high is None:
        return f"{value}{star}"
    low, high = (percent(one).rstrip("%") if share else figure(one) for one in (found.low, found.high))
    return f"{value}{star}\n{low}–{high}"


def _is_clear(summary: SteerSummary, row: SteerRow, measure: Measure) -> bool:
    return any(
        one.about == "over none" and one.one == row.label and one.measure == measure and one.q < CLEAR
        for one in summary.differences
    )


def difference_table(summary: SteerSummary) -> Table | None:
    """Every paired difference."""
    if not summary.differences:
        return None
    return Table(
        title="Differences",
        titles=("one", "minus", "by", "difference", "95%", "q", "users", "n"),
        words=3,
        rows=[(one.one, one.other, MEASURES[one.measure], *_difference(one)) for one in summary.differences],
    )


def _difference(one: SteerDifference) -> tuple[str, ...]:
    share, star = one.measure in ("reward", "policy"), "*" if one.q < CLEAR else ""
    value = f"{points(one.difference)} points" if share else figure(one.difference, sign=True)
    interval = points_interval(one.low, one.high) if share else figure_interval(one.low, one.high, sign=True)
    return (f"{value}{star}", interval, chance_of_error(one.q), f"{one.users:,}", f"{one.n:,}")


def parts_table(summary: SteerSummary) -> Table:
    """Where every number comes from."""
    return Table(
        title="Runs that the table is made of",
        titles=("part", "folder, beside this one"),
        words=2,
        rows=[(name, folder) for name, folder in summary.parts.items()],
    )
