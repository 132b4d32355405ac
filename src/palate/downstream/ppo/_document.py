"""What a report on a training run shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from palate.downstream._items import browsed, view_table
from palate.downstream._personal import AGREEMENT, personal_table, table_section
from palate.downstream.ppo._results import Change, PolicyTexts, PpoSummary, StepLine
from palate.downstream.ppo._run import HeldOutLine, PpoSettings, held_out_prompts
from palate.evaluation import item_rating
from palate.report import (
    ABSENT,
    SCORES,
    Chart,
    Document,
    ItemCard,
    ItemRating,
    ItemText,
    Section,
    Step,
    Table,
    chance_of_error,
    count,
    document_of,
    draw_curves,
    figure,
    figure_interval,
    percent,
    points,
    points_interval,
)
from palate.runs import Run, profiles_shown, view_label

CURVES: dict[str, Callable[[StepLine], float | None]] = {
    "reward": lambda line: line.reward,
    "KL, nats a text": lambda line: line.kl,
    "entropy, nats a token": lambda line: line.entropy,
    "length, tokens": lambda line: line.length,
    "truncated": lambda line: line.truncated,
    "clip fraction": lambda line: line.clip_fraction,
    "explained variance": lambda line: line.explained_variance,
    "KL coefficient": lambda line: line.kl_coefficient,
    "seconds a step": lambda line: line.seconds or None,
}
"""What is drawn while training runs, in this order."""
MOST_POINTS = 12
"""Of a curve: each stands for the mean of as many steps."""
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


def ppo_document(run: Run[PpoSettings], summary: PpoSummary, *, users: bool) -> Document:
    """What held-out users got, whether it is personal, how training went, and the texts before and after."""
    size = f"step {len(summary.curve)} of {summary.steps}, seed {summary.seed}"
    items = list(_cards(run)) if users else []
    held_out = held_out_table(summary)
    return document_of(
        summary,
        name=summary.algorithm.upper(),
        size=size,
        lead=f"{summary.policy}, seeing {summary.policy_view}, is trained by {summary.algorithm} with the reward of "
        f"{summary.reward_model}, seeing {summary.view}, on {count(summary.train_items, 'prompt')} of "
        f"{count(summary.train_users, 'user')}. {summary.critic} judges it on {count(summary.test_items, 'prompt')} of "
        f"{count(summary.test_users, 'user')} that it was not trained on.",
        facts={"Trained": size, "Policy": summary.policy, "Reward": summary.reward_model, "Critic": summary.critic},
        unfinished="Training or judging is not over yet. The numbers will change.",
        findings=summary.findings,
        sections=[
            None
            if held_out is None
            else Section(
                title=held_out.title,
                name="Held-out users",
                blocks=[*filter(None, [held_out, parts_table(summary)])],
                small_print=[footnote(summary)],
                terminal=True,
            ),
            _own_view(summary),
            Section(
                title="Training",
                lead="Each point is a mean over the steps since the last one. A reward that rises while entropy "
                "collapses or length runs away was not earned.",
                blocks=[*training_charts(summary), curve_table(summary)],
                terminal=True,
                side_by_side=True,
            ),
            table_section("Views", view_table(summary.shown)),
        ],
        items=items,
        left_out=summary.test_items - len(items),
    )


def _own_view(summary: PpoSummary) -> Section | None:
    tables = [*filter(None, [view_scores_table(summary), personal_table(summary.personal)])]
    return Section(title="The user's own view", name="Own view", blocks=tables, terminal=True) if tables else None


def held_out_table(summary: PpoSummary) -> Table | None:
    """What each policy wrote for held-out users, and the change."""
    before, after = summary.before, summary.after
    if before is None or after is None:
        return None
    return Table(
        title="What held-out users got",
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


def training_charts(summary: PpoSummary) -> Iterator[Chart]:
    """One for each thing that is watched; nothing for what has no numbers, or always the same one."""
    parts = [part for part in np.array_split(np.arange(len(summary.curve)), MOST_POINTS) if len(part)]
    for name, value in CURVES.items():
        steps = []
        for part in parts:
            values = [one for index in part if (one := value(summary.curve[index])) is not None]
            if values:
                steps.append(Step(summary.curve[part[-1]].step, float(np.mean(values))))
        if len({step.value for step in steps}) < 2 <= len(parts):
            continue
        chart = draw_curves({name.partition(",")[0]: steps}, SCORES, title=name, axis="step", step="{} steps")
        if chart is not None:
            yield chart


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


_COUNTS: dict[str, Callable[[PolicyTexts], int]] = {
    "empty": lambda one: one.empty,
    "truncated": lambda one: one.truncated,
    "without a grade": lambda one: one.unscored,
}


def _share(one: PolicyTexts, name: str) -> str:
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


def _cards(run: Run[PpoSettings]) -> Iterator[ItemCard]:
    """Every held-out prompt with both policies' texts, and what critic and reward model say of them."""
    items, lines = held_out_prompts(run)
    line_of = {line.item: line for line in lines}
    kept = browsed(items)
    profiles = profiles_shown(run, {item.id for item in kept})
    for item in kept:
        line = line_of[item.id]
        yield ItemCard(
            id=item.id,
            user=item.user_id,
            prompt=item.prompt,
            facts={"category": item.category} if item.category else {},
            texts=list(_texts(line)),
            profiles=profiles.get(item.id, {}),
            ratings=list(_ratings(line, run.settings)),
        )


def _texts(line: HeldOutLine) -> Iterator[ItemText]:
    """Of the untrained policy, then of the trained one; then what that one wrote seeing somebody else or nobody."""
    half = len(line.texts) // 2
    rewards: Sequence[float | None] = line.rating.scores or [None] * len(line.texts)
    for place, (text, grade, reward) in enumerate(zip(line.texts, line.grades, rewards, strict=True)):
        numbers = {"critic": grade.score, "reward": reward}
        yield ItemText(
            label=f"{'Trained' if place >= half else 'Untrained'} {place % half + 1}",
            text=text,
            tags=["truncated"] if place in line.unfinished else [],
            highlighted=place >= half,
            numbers={name: number for name, number in numbers.items() if number is not None},
        )
    for control in line.written:
        for place, (text, grade) in enumerate(zip(control.texts, control.grades, strict=True)):
            yield ItemText(
                label=f"Trained, seeing {control.view} {place + 1}",
                text=text,
                numbers={} if grade.score is None else {"critic": grade.score},
            )


def _ratings(line: HeldOutLine, settings: PpoSettings) -> Iterator[ItemRating]:
    """What the reward model says of both policies' texts, seeing the user, nobody and strangers."""
    rated = [(settings.view.name, line.rating)]
    rated += [(view_label(one.view, one.draw), one.rating) for one in line.ratings]
    unrated: list[float | None] = [None] * sum(len(control.texts) for control in line.written)
    for view, rating in rated:
        scores = [*rating.scores, *unrated] if rating.scores is not None else None
        yield item_rating(settings.reward_model.label, view, rating, scores=scores)
