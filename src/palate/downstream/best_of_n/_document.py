"""What a report on best-of-N shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream._items import ITEMS, browsed, view_table
from palate.downstream._personal import personal_table, table_section
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._results import BestOfNDifference, BestOfNSummary, Choice, Curve, PolicySamples
from palate.downstream.best_of_n._run import GRADES, RATINGS, BestOfNSettings
from palate.evaluation import item_rating
from palate.report import (
    ABSENT,
    CLEAR,
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
)
from palate.runs import Run, profiles_shown, view_label

FOOTNOTE = (
    "Scores are the critic's; k = 1 is the policy alone. Every column is the exact expectation over all subsets of k "
    "samples. Over random: at the largest k; * is q < .05 over all differences of the run. Oracle's gain: how much of "
    "the way from a random choice to the critic's own is reached. With several strangers, the mean over them. "
    "Intervals are 95% and resample users."
)


def best_of_n_document(run: Run[BestOfNSettings], summary: BestOfNSummary, *, users: bool) -> Document:
    """Scores and rewards against k, what is personal in them, differences, and the samples."""
    items = list(_cards(run)) if users else []
    tables = list(score_tables(summary))
    return document_of(
        summary,
        name=f"Best of {summary.drawn}",
        size=f"{count(summary.items, 'prompt')}, {count(summary.users, 'user')}, seed {summary.seed}",
        lead=f"{summary.policy} writes {count(summary.drawn, 'sample')} for each prompt (temperature "
        f"{summary.temperature:g}, top_p {summary.top_p:g}, at most {summary.tokens} tokens). {summary.critic} grades "
        "them.",
        facts={"Policy": summary.policy, "Critic": summary.critic},
        unfinished="Not everything is sampled, rated and graded yet. The numbers will change.",
        findings=summary.findings,
        sections=[
            *(
                Section(
                    title=table.title,
                    name="Scores" if len(tables) == 1 else policy.policy_view,
                    lead="What the critic says of the choice, as there is more to choose from.",
                    blocks=[*filter(None, [_score_chart(summary, policy.policy_view)]), table],
                    small_print=[FOOTNOTE] if table is tables[-1] else [],
                    terminal=True,
                )
                for policy, table in zip(summary.policies, tables, strict=True)
            ),
            table_section("Own view", personal_table(summary.personal), terminal=True),
            *(
                Section(
                    title=table.title,
                    name="Rewards",
                    lead="The reward of the choice can only rise. Where it rises and the critic's score falls, the "
                    "reward is over-optimised.",
                    blocks=[*_reward_charts(summary), table],
                    terminal=True,
                )
                for table in reward_tables(summary)
            ),
            table_section("Differences", difference_table(summary)),
            table_section("Samples", sample_table(summary.policies)),
            table_section("Views", view_table(summary.shown)),
        ],
        items=items,
        left_out=summary.items - len(items),
    )


def _score_chart(summary: BestOfNSummary, policy_view: str) -> Chart | None:
    several = len({curve.view for curve in summary.curves if curve.view}) > 1
    curves = [curve for curve in summary.curves if curve.policy_view == policy_view and curve.n]
    return draw_curves(
        {_name(curve, several): _scores(curve) for curve in curves},
        SCORES,
        title=f"The critic's score of the choice, policy seeing {policy_view}",
        axis="k, the number of samples to choose from",
        step="{} samples",
    )


def _reward_charts(summary: BestOfNSummary) -> Iterator[Chart]:
    several = len({curve.view for curve in summary.curves if curve.view}) > 1
    for policy in summary.policies:
        chart = draw_curves(
            {
                _name(curve, several): _rewards(curve)
                for curve in summary.curves
                if curve.policy_view == policy.policy_view and curve.n and curve.kind == "model"
            },
            SCORES,
            title=f"The reward of the choice in standard deviations, policy seeing {policy.policy_view}",
            axis="k, the number of samples to choose from",
            step="{} samples",
        )
        if chart is not None:
            yield chart


def score_tables(summary: BestOfNSummary) -> Iterator[Table]:
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


def reward_tables(summary: BestOfNSummary) -> Iterator[Table]:
    """How the reward rises with k, beside the bound on how far the choice is from the policy."""
    models = [curve for curve in summary.curves if curve.kind == "model"]
    if not models:
        return
    steps = models[0].points
    bound = ("KL from the policy, at most (nats)", "", "", *(f"{point.divergence:.2f}" for point in steps))
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


def difference_table(summary: BestOfNSummary) -> Table | None:
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


def sample_table(policies: Sequence[PolicySamples]) -> Table:
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
            for one in policies
        ],
    )


def choice(one: Choice) -> str:
    """Who chose among how many, of which samples."""
    if one.k == 1 or one.chooser == "random":
        return f"policy alone, seeing {one.policy_view}"
    seeing = f" seeing {one.view}" if one.view else ""
    return f"best of {one.k} by {one.chooser}{seeing}, policy seeing {one.policy_view}"


def _numbers(summary: BestOfNSummary, curve: Curve) -> tuple[str, ...]:
    last = curve.points[-1]
    return (
        *(figure(point.score) for point in curve.points),
        figure_interval(last.low, last.high),
        _over_random(summary, curve),
        percent(last.oracle_share.value) if last.oracle_share and curve.kind in ("model", "longest") else "",
    )


def _over_random(summary: BestOfNSummary, curve: Curve) -> str:
    found = next((one for one in summary.differences if _is_over_random(one, curve)), None)
    return "" if found is None else figure(found.difference, sign=True) + ("*" if found.q < CLEAR else " ")


def _is_over_random(one: BestOfNDifference, curve: Curve) -> bool:
    mine = (one.one.policy_view, one.one.chooser, one.one.view)
    return one.about == "over random" and mine == (curve.policy_view, curve.chooser, curve.view)


def _name(curve: Curve, several: bool) -> str:
    """Models come under their view where there are several, and never under the name of what stands beside them."""
    if curve.kind != "model":
        return f"({curve.chooser})"
    return f"{curve.chooser}, {curve.view}" if several else curve.chooser


def _scores(curve: Curve) -> list[Step]:
    return [Step(point.k, point.score, point.low, point.high) for point in curve.points if point.score is not None]


def _rewards(curve: Curve) -> list[Step]:
    return [Step(point.k, point.reward) for point in curve.points if point.reward is not None]


def _cards(run: Run[BestOfNSettings]) -> Iterator[ItemCard]:
    """Every prompt with its samples, who would choose which, and what the critic says."""
    items = browsed(run.read(ITEMS))
    samples, grades = run.lines(SAMPLES), run.lines(GRADES)
    profiles = profiles_shown(run, {item.id for item in items})
    ratings: dict[tuple[str, str], list[ItemRating]] = {}
    chosen: dict[tuple[str, str], dict[int, list[str]]] = {}
    for line in run.read(RATINGS):
        rating, key = line.rating, (line.policy_view, line.item)
        view = view_label(line.view, line.draw)
        scores = list(rating.scores) if rating.scores is not None else None
        ratings.setdefault(key, []).append(item_rating(line.rm, view, rating, scores=scores))
        if scores and len(set(scores)) > 1 and not line.draw:
            best = scores.index(max(scores))
            chosen.setdefault(key, {}).setdefault(best, []).append(f"chosen by {line.rm}, {view}")
    several = len(run.settings.policy_views) > 1
    for policy_view in (view.name for view in run.settings.policy_views):
        for item in items:
            key = (policy_view, item.id)
            drawn, graded = samples.get(key), grades.get(key)
            if drawn is None or drawn.failed is not None:
                continue
            marks = [grade.score for grade in graded.grades] if graded else [None] * len(drawn.texts)
            top = max((mark for mark in marks if mark is not None), default=None)
            yield ItemCard(
                id=f"{item.id}, policy sees {policy_view}" if several else item.id,
                user=item.user_id,
                prompt=item.prompt,
                facts={"policy sees": policy_view} | ({"category": item.category} if item.category else {}),
                texts=[
                    ItemText(
                        label=f"Sample {place + 1}",
                        text=text,
                        tags=[
                            *(["the critic's best"] if mark is not None and mark == top else []),
                            *chosen.get(key, {}).get(place, ()),
                        ],
                        highlighted=mark is not None and mark == top,
                        numbers={} if mark is None else {"critic": mark},
                    )
                    for place, (text, mark) in enumerate(zip(drawn.texts, marks, strict=True))
                ],
                profiles=profiles.get(item.id, {}),
                ratings=ratings.get(key, []),
            )
