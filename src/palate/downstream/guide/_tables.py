"""The tables of a guided run as words, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream.guide._results import GuideSummary, PairResult, TextResult
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
    percent_interval,
    points,
    points_interval,
)
from palate.stats import Figure

ACCURACY_NOTE = (
    "Reward accuracy: how often the reward model scores the response that the user preferred highest. The others: how "
    "often the policy, steered by it with this weight, gives that response the most log-probability. "
    "Weight 0 is the policy's own likelihood; the last column is what large weights tend to."
)
TEXT_NOTE = (
    "Alone is what the policy writes unguided; * is a difference from it on the same items with q < .05 over all "
    "differences of the run. A stranger's view is that of one stranger an item. Intervals are 95% and resample users."
)


def head(summary: GuideSummary) -> Head:
    """Who wrote, how it was guided, and who marked."""
    size = f"{count(summary.items, 'prompt')}, {count(summary.users, 'user')}, seed {summary.seed}"
    return Head(
        summary=summary,
        name="Guided decoding",
        size=size,
        set_up=_set_up(summary),
        facts={"Size": size, "Policy": summary.policy, "Critic": summary.critic or "none"},
        unfinished="Not everything is read, written and marked yet; the numbers will change.",
    )


def _set_up(summary: GuideSummary) -> str:
    if summary.chunk == 1:
        step = f"the policy's {summary.top_k} likeliest next tokens"
        how = "the best is taken" if not summary.temperature else f"drawn at temperature {summary.temperature:g}"
    else:
        step = f"{summary.top_k} chunks of {summary.chunk} tokens that the policy draws"
        how = f"temperature {summary.temperature:g}, the best is taken"
    read = f"; {count(summary.pairs, 'comparison')} followed token by token" if summary.pairs else ""
    marks = f"; at most {summary.tokens} tokens; {summary.critic} marks the texts" if summary.critic else ""
    return f"{summary.policy} is guided among {step} ({how}){read}{marks}."


def accuracy_tables(summary: GuideSummary) -> Iterator[Table]:
    """Policy accuracy beside reward accuracy, per token and then whole: reward models down, weights across."""
    rows = [one for one in summary.accuracies if one.policy_accuracy]
    if not rows:
        return
    seen = _Seen(rows)
    for name, how in (("normalised", "per token"), ("whole", "of the whole response")):
        yield Table(
            title=f"Policy accuracy, by log-probability {how}{seen.title}",
            titles=(
                *seen.titles,
                "reward accuracy",
                *(_weight(point.weight) for point in rows[0].policy_accuracy),
                "n",
            ),
            words=len(seen.titles),
            rows=[
                (
                    *seen.names(one),
                    _share(one.reward_accuracy),
                    *(_share(getattr(point, name)) for point in one.policy_accuracy),
                    f"{one.n:,}",
                )
                for one in rows
            ],
        )


class _Seen:
    """Who guides and who sees what: where all see the same, the title says it, else there are columns for it."""

    def __init__(self, rows: Sequence[PairResult | TextResult]) -> None:
        views, shown = ({one.view for one in rows}, {one.policy_view for one in rows})
        self._view, self._shown = len(views) > 1, len(shown) > 1
        one = rows[0]
        self.title = ("" if self._shown else f"; the policy sees {one.policy_view}") + (
            "" if self._view else f", its guides see {one.view}"
        )
        self.titles = ("guided by", *(["seeing"] if self._view else []), *(["policy sees"] if self._shown else []))

    def names(self, one: PairResult | TextResult) -> tuple[str, ...]:
        return (one.rm, *([one.view] if self._view else []), *([one.policy_view] if self._shown else []))


def interval_table(summary: GuideSummary) -> Table | None:
    """The same with intervals, and what steering changes."""
    if not any(one.policy_accuracy for one in summary.accuracies):
        return None
    return Table(
        title="Policy accuracy with intervals",
        titles=(
            "guided by",
            "seeing",
            "policy sees",
            "weight",
            "per token",
            "95%",
            "whole",
            "95%",
            "over alone",
            "95%",
            "q",
        ),
        words=3,
        rows=[
            (
                one.rm,
                one.view,
                one.policy_view,
                "large" if point.weight is None else f"{point.weight:g}",
                _share(point.normalised),
                _limits(point.normalised),
                _share(point.whole),
                _limits(point.whole),
                points(point.over_alone.value),
                points_interval(point.over_alone.low, point.over_alone.high),
                "" if point.q is None else chance_of_error(point.q),
            )
            for one in summary.accuracies
            for point in one.policy_accuracy
        ],
    )


def text_tables(summary: GuideSummary) -> Iterator[Table]:
    """What the critic says of the texts, and what the guide itself says: guides down, weights across."""
    guided = [one for one in summary.texts if one.rm]
    if not guided:
        return
    alone = {one.policy_view: one for one in summary.texts if not one.rm}
    seen = _Seen(guided)
    rows: dict[tuple[str, ...], list[TextResult]] = {}
    for one in guided:
        rows.setdefault((one.policy_view, one.rm, one.view), []).append(one)
    weights = [f"w = {one.weight:g}" for one in next(iter(rows.values()))]
    yield Table(
        title=f"The critic's score{seen.title}",
        titles=(*seen.titles, "alone", *weights, "n"),
        words=len(seen.titles),
        rows=[
            (
                *seen.names(some[0]),
                _score(alone[key[0]]),
                *(_score(one) + _star(one) for one in some),
                f"{some[-1].n:,}",
            )
            for key, some in rows.items()
        ],
    )
    yield Table(
        title="The guide's own reward, over that of what the policy writes alone",
        titles=(*seen.titles, *weights),
        words=len(seen.titles),
        rows=[
            (
                *seen.names(some[0]),
                *(figure(one.reward_gain.value if one.reward_gain else None, sign=True) for one in some),
            )
            for some in rows.values()
        ],
    )


def detail_table(summary: GuideSummary) -> Table | None:
    """What else there is to know of the texts."""
    if not summary.texts:
        return None
    titles = ("guided by", "seeing", "policy sees", "weight", "score", "95%", "log-prob.", "tokens", "cut off", "empty")
    return Table(
        title="Texts",
        titles=(*titles, "failed", "n"),
        words=3,
        rows=[
            (
                one.rm or "(alone)",
                one.view,
                one.policy_view,
                f"{one.weight:g}",
                _score(one),
                figure_interval(one.score.low, one.score.high) if one.score else ABSENT,
                figure(one.log_probability),
                ABSENT if one.mean_tokens is None else f"{one.mean_tokens:.1f}",
                f"{one.unfinished:,}",
                f"{one.empty:,}",
                f"{one.failed:,}",
                f"{one.n:,}",
            )
            for one in summary.texts
        ],
    )


def difference_table(summary: GuideSummary) -> Table | None:
    """Every difference from the policy alone."""
    rows = [(one, one.over_alone) for one in summary.texts if one.over_alone is not None]
    if not rows:
        return None
    return Table(
        title="Guided texts against the policy alone",
        titles=("guided by", "seeing", "policy sees", "weight", "difference", "95%", "p", "q", "users", "n"),
        words=3,
        rows=[
            (
                one.rm,
                one.view,
                one.policy_view,
                f"{one.weight:g}",
                figure(over.difference, sign=True),
                figure_interval(over.low, over.high, sign=True),
                chance_of_error(over.p),
                chance_of_error(over.q),
                f"{over.users:,}",
                f"{over.n:,}",
            )
            for one, over in rows
        ],
    )


def _weight(weight: float | None) -> str:
    return "large" if weight is None else f"w = {weight:g}"


def _share(found: Figure | None) -> str:
    return ABSENT if found is None else percent(found.value)


def _limits(found: Figure) -> str:
    return percent_interval(found.low, found.high)


def _score(one: TextResult) -> str:
    return figure(one.score.value if one.score else None)


def _star(one: TextResult) -> str:
    return "*" if one.over_alone is not None and one.over_alone.q < CLEAR else ""
