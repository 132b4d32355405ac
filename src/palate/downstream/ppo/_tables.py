"""A training run in tables and words, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Callable

from palate.downstream._personal import AGREEMENT
from palate.downstream.ppo._results import Change, PpoSummary, StepLine, Written
from palate.report import (
    ABSENT,
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

CURVES: dict[str, Callable[[StepLine], float | None]] = {
    "reward": lambda line: line.reward,
    "KL, nats a text": lambda line: line.kl,
    "entropy, nats a token": lambda line: line.entropy,
    "length, tokens": lambda line: line.length,
    "cut off": lambda line: line.cut_off,
    "clip share": lambda line: line.clip_share,
    "explained variance": lambda line: line.explained_variance,
    "KL coefficient": lambda line: line.kl_coefficient,
    "seconds a step": lambda line: line.seconds or None,
}
"""What is drawn while training runs, in this order."""
MOST_PARTS = 8
"""Of what the critic measured, as many as are shown."""
FOOTNOTE = (
    "Both policies write for the same held-out prompts with the same seeds; means are over prompts where both have a "
    "number. Change: trained minus untrained; intervals are 95% and resample users; p is below .05 where the "
    "interval leaves zero out. "
    "The critic's score is the number that counts: the reward is what was trained for. Whether the two agree is "
    "asked of pairs of one policy's texts for a prompt that the critic tells apart; without such a pair there is no "
    "number, and its change is over prompts where both policies have one."
)
MEASURED = "Each change in what the critic measured is over the prompts of users who have it, of five at the least."


def head(summary: PpoSummary) -> Head:
    """How much was done; who writes, who pays, who judges, and for whom."""
    size = f"step {len(summary.curve)} of {summary.steps}, seed {summary.seed}"
    return Head(
        summary=summary,
        name=summary.algorithm.upper(),
        size=size,
        set_up=f"{summary.policy}, seeing {summary.policy_view}, is trained by {summary.algorithm} with the reward of "
        f"{summary.reward_model}, seeing {summary.view}, on {count(summary.train_items, 'prompt')} of "
        f"{count(summary.train_users, 'user')}; {summary.critic} judges it on {count(summary.test_items, 'prompt')} of "
        f"{count(summary.test_users, 'user')} that it was not trained on.",
        facts={
            "Trained": size,
            "Policy": summary.policy,
            "Reward": summary.reward_model,
            "Critic": summary.critic,
        },
        unfinished="Training or judging is not over yet; the numbers will change.",
    )


def held_out_table(summary: PpoSummary) -> Table | None:
    """What each policy wrote for held-out users, and the change."""
    before, after = summary.before, summary.after
    if before is None or after is None:
        return None
    return Table(
        title="Held-out users",
        titles=("", "untrained", "trained", "change", "95%", "p"),
        words=1,
        rows=[
            ("critic's score", figure(before.score), figure(after.score), *_change(summary.score)),
            ("reward", figure(before.reward), figure(after.reward), *_change(summary.reward)),
            *_agreement(summary),
            ("tokens of a text", *(_tenths(one.tokens) for one in (before, after)), *[""] * 3),
            *((name, *(_share(one, name) for one in (before, after)), *[""] * 3) for name in _COUNTS),
        ],
    )


def view_scores_table(summary: PpoSummary) -> Table | None:
    """The trained policy on held-out users, by what it and the reward model are shown."""
    if not summary.by_view:
        return None
    return Table(
        title="The trained policy, by what is shown of held-out users",
        titles=("", "seeing", "mean", "users", "prompts"),
        words=2,
        rows=[
            (
                one.measure,
                one.view,
                percent(one.value) if one.measure == AGREEMENT else figure(one.value),
                f"{one.users:,}",
                f"{one.n:,}",
            )
            for one in summary.by_view
        ],
    )


def parts_table(summary: PpoSummary) -> Table | None:
    """What became of what the critic measured: what changed most, over all prompts together."""
    parts = list(summary.parts.items())[:MOST_PARTS]
    if len(parts) < 2:
        return None
    return Table(
        title="What the critic measured",
        titles=("", "change", "95%", "prompts", "users"),
        words=1,
        rows=[(name, *_change(change)[:2], str(change.n), str(change.users)) for name, change in parts],
    )


def footnote(summary: PpoSummary) -> str:
    """How to read what held-out users got."""
    return f"{FOOTNOTE} {MEASURED}" if parts_table(summary) else FOOTNOTE


def curve_table(summary: PpoSummary) -> Table:
    """Every curve at the start, in the middle and at the end."""
    curve = summary.curve
    places = sorted({0, len(curve) // 2, len(curve) - 1}) if curve else []
    return Table(
        title="Training",
        titles=("", *(f"step {curve[place].step}" for place in places)),
        words=1,
        rows=[(name, *(figure(value(curve[place])) for place in places)) for name, value in CURVES.items()],
    )


_COUNTS: dict[str, Callable[[Written], int]] = {
    "empty": lambda one: one.empty,
    "cut off": lambda one: one.cut_off,
    "without a mark": lambda one: one.unscored,
}


def _share(one: Written, name: str) -> str:
    return percent(_COUNTS[name](one) / one.texts)


def _tenths(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}"


def _agreement(summary: PpoSummary) -> list[tuple[str, ...]]:
    """A row, or none where no policy wrote two texts that the critic tells apart."""
    shares = [percent(one.agreement if one else None) for one in (summary.before, summary.after)]
    if set(shares) == {ABSENT}:
        return []
    change, told = summary.agreement, (ABSENT, ABSENT, ABSENT)
    if change is not None:
        interval = points_interval(change.low, change.high)
        told = (points(change.difference), interval, chance_of_error(change.p))
    return [("critic and reward agree", *shares, *told)]


def _change(change: Change | None) -> tuple[str, str, str]:
    if change is None:
        return (ABSENT, ABSENT, ABSENT)
    return (
        figure(change.difference, sign=True),
        figure_interval(change.low, change.high, sign=True),
        chance_of_error(change.p),
    )
