"""What a report on guided decoding shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from palate.downstream._items import ITEMS, PromptItem, browsed, view_table
from palate.downstream._personal import personal_table, table_section
from palate.downstream.guide._results import GuideSummary, PairResult, TextResult
from palate.downstream.guide._run import GENERATIONS, GRADES, RATINGS, GeneratedLine, GuideSettings, PairKey, outcomes
from palate.evaluation import item_rating, outcome_of
from palate.report import (
    ABSENT,
    CLEAR,
    IN_PERCENT,
    SCORES,
    Across,
    Chart,
    Document,
    ItemCard,
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
    percent_interval,
    points,
    points_interval,
)
from palate.runs import Run, profiles_shown
from palate.stats import Figure

AXIS = "weight of the reward"
ACCURACY_NOTE = (
    "Reward accuracy: how often the reward model scores the response that the user preferred highest. The others: how "
    "often the policy, steered by it with this weight, gives that response the most log-probability. "
    "Weight 0 is the policy's own likelihood; the last column is the limit of large weights."
)
TEXT_NOTE = (
    "Alone is what the policy writes unguided; * is a difference from it on the same items with q < .05 over all "
    "differences of the run. A stranger's view is that of one stranger an item. Intervals are 95% and resample users."
)


def guide_document(run: Run[GuideSettings], summary: GuideSummary, *, users: bool) -> Document:
    """Policy accuracy and the critic's scores against the weight, what is personal in them, and the texts."""
    items = browsed(run.read(ITEMS)) if users else []
    return document_of(
        summary,
        name="Guided decoding",
        size=f"{count(summary.items, 'prompt')}, {count(summary.users, 'user')}, seed {summary.seed}",
        lead=_lead(summary),
        facts={"Policy": summary.policy, "Critic": summary.critic or "none"},
        unfinished="Not everything is read, written and graded yet. The numbers will change.",
        findings=summary.findings,
        sections=guide_sections(summary),
        items=[*_pair_cards(run, items), *_text_cards(run, items)],
        left_out=summary.items - len(items),
    )


def guide_sections(summary: GuideSummary) -> list[Section | None]:
    """All tables and charts."""
    accuracies, texts = list(accuracy_tables(summary)), list(text_tables(summary))
    return [
        Section(
            title="Policy accuracy",
            lead="Does the steered policy give more probability to the response that the user preferred? Dashed lines, "
            "in the colour of the same reward model: its reward accuracy. Shaded: 95% intervals.",
            blocks=[*_charts(summary, _accuracy_chart), *accuracies],
            small_print=[ACCURACY_NOTE],
            terminal=True,
        )
        if accuracies
        else None,
        Section(
            title="What was written",
            name="Texts",
            lead="The critic's score of guided texts, beside those that the policy writes alone (dashed, and at weight "
            "0). Shaded: 95% intervals.",
            blocks=[*_charts(summary, _score_chart), *texts],
            small_print=[TEXT_NOTE],
            terminal=True,
        )
        if texts
        else None,
        table_section("Own view", personal_table(summary.personal), terminal=True),
        table_section("Intervals", interval_table(summary)),
        table_section("Details", detail_table(summary)),
        table_section("Differences", difference_table(summary)),
        table_section("Views", view_table(summary.shown)),
    ]


def _lead(summary: GuideSummary) -> str:
    if summary.chunk == 1:
        step = f"the policy's {summary.top_k} likeliest next tokens"
        how = "the best is taken" if not summary.temperature else f"sampled at temperature {summary.temperature:g}"
    else:
        step = f"{summary.top_k} chunks of {summary.chunk} tokens that the policy samples"
        how = f"temperature {summary.temperature:g}, the best is taken"
    pairs = f" {count(summary.pairs, 'comparison')} followed token by token." if summary.pairs else ""
    grades = f" Texts of at most {summary.tokens} tokens; {summary.critic} grades them." if summary.critic else ""
    return f"{summary.policy} is guided among {step} ({how}).{pairs}{grades}"


def _charts(summary: GuideSummary, draw: Callable[[GuideSummary, str], Chart | None]) -> Iterator[Chart]:
    """One for each policy view."""
    for policy_view in dict.fromkeys(one.policy_view for one in _results(summary)):
        chart = draw(summary, policy_view)
        if chart is not None:
            yield chart


def _results(summary: GuideSummary) -> list[PairResult | TextResult]:
    return [*summary.accuracies, *summary.texts]


def _accuracy_chart(summary: GuideSummary, policy_view: str) -> Chart | None:
    """Policy accuracy per token against the weight, beside reward accuracy."""
    curves: dict[str, list[Step]] = {}
    across = []
    for one in summary.accuracies:
        if one.policy_view == policy_view and one.policy_accuracy:
            name = _name(summary, one)
            curves[name] = [_step(point.weight, point.normalised) for point in one.policy_accuracy]
            if one.reward_accuracy is not None:
                across.append(Across(f"reward accuracy of {name}", one.reward_accuracy.value, name))
    return draw_curves(
        curves,
        IN_PERCENT,
        title=f"Policy accuracy per token, policy seeing {policy_view}",
        axis=AXIS,
        step="weight {}",
        across=across,
        grey_first=False,
    )


def _score_chart(summary: GuideSummary, policy_view: str) -> Chart | None:
    """The critic's score against the weight. Every curve begins with the policy alone, whose weight is 0."""
    texts = [one for one in summary.texts if one.policy_view == policy_view and one.score is not None]
    alone = next((one.score for one in texts if not one.rm), None)
    curves: dict[str, list[Step]] = {}
    for one in texts:
        if one.rm and one.score is not None:
            start = [] if alone is None else [_step(0.0, alone)]
            curves.setdefault(_name(summary, one), start).append(_step(one.weight, one.score))
    return draw_curves(
        curves,
        SCORES,
        title=f"The critic's score, policy seeing {policy_view}",
        axis=AXIS,
        step="weight {}",
        across=[] if alone is None else [Across("the policy alone", alone.value)],
        grey_first=False,
    )


def _name(summary: GuideSummary, one: PairResult | TextResult) -> str:
    """The reward model, with what it sees of the user where reward models see different things."""
    views = {other.view for other in _results(summary) if other.rm}
    return f"{one.rm}, {one.view}" if len(views) > 1 else one.rm


def _step(weight: float | None, value: Figure) -> Step:
    return Step(math.inf if weight is None else weight, value.value, value.low, value.high)


def accuracy_tables(summary: GuideSummary) -> Iterator[Table]:
    """Policy accuracy beside reward accuracy, per token and then whole: reward models down, weights across."""
    rows = [one for one in summary.accuracies if one.policy_accuracy]
    if not rows:
        return
    seen = _SeenColumns(rows)
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


class _SeenColumns:
    """Columns for what reward models and policy see; where all see the same, the title says it."""

    def __init__(self, rows: Sequence[PairResult | TextResult]) -> None:
        views, shown = ({one.view for one in rows}, {one.policy_view for one in rows})
        self._view, self._shown = len(views) > 1, len(shown) > 1
        one = rows[0]
        self.title = ("" if self._shown else f"; the policy sees {one.policy_view}") + (
            "" if self._view else f", reward models see {one.view}"
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
    """The critic's scores and the rewards of the texts: reward models down, weights across."""
    guided = [one for one in summary.texts if one.rm]
    if not guided:
        return
    alone = {one.policy_view: one for one in summary.texts if not one.rm}
    seen = _SeenColumns(guided)
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
        title="Reward of the guided text less that of what the policy writes alone",
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
    """How long and how likely the texts are, and what was left out."""
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


def _pair_cards(run: Run[GuideSettings], items: Sequence[PromptItem]) -> Iterator[ItemCard]:
    """Every comparison on which accuracy is measured, with the reward models' scores of its responses."""
    if not run.settings.accuracy:
        return
    ratings = run.lines(RATINGS)
    profiles = profiles_shown(run, {item.id for item in items})
    for item in items:
        if item.preferred is None:
            continue
        yield ItemCard(
            id=item.id,
            user=item.user_id,
            prompt=item.prompt,
            facts={"category": item.category} if item.category else {},
            texts=[
                ItemText(
                    label=f"Response {place + 1}",
                    text=text,
                    tags=["preferred by this user"] if place == item.preferred else [],
                    highlighted=place == item.preferred,
                )
                for place, text in enumerate(item.responses)
            ],
            profiles=profiles.get(item.id, {}),
            ratings=[
                item_rating(
                    model.label,
                    view.name,
                    line.rating,
                    scores=line.rating.scores,
                    outcome=outcome_of(line.rating, item.preferred),
                )
                for model in run.settings.reward_models
                for view in run.settings.views
                if (line := ratings.get((model.label, view.name, item.id))) is not None
            ],
        )


def _text_cards(run: Run[GuideSettings], items: Sequence[PromptItem]) -> Iterator[ItemCard]:
    """Every prompt with what the policy writes alone and under each reward model, view and weight."""
    settings = run.settings
    if settings.critic is None:
        return
    written: dict[tuple[str, str], list[GeneratedLine]] = {}
    for line in run.read(GENERATIONS):
        if line.failed is None:
            written.setdefault((line.policy_view, line.item), []).append(line)
    grades = {key: line.grade.score for key, line in run.lines(GRADES).items()}
    rewards = {key: line.rating.scores for key, line in run.lines(outcomes(settings)).items()}
    profiles = profiles_shown(run, {item.id for item in items})
    several = len(settings.policy_views) > 1
    for policy_view in (view.name for view in settings.policy_views):
        for item in items:
            texts = written.get((policy_view, item.id), [])
            best = max((score for text in texts if (score := grades.get(text.key)) is not None), default=None)
            if texts:
                yield ItemCard(
                    id=f"{item.id}, written" + (f", policy sees {policy_view}" if several else ""),
                    user=item.user_id,
                    prompt=item.prompt,
                    facts={"policy sees": policy_view} | ({"category": item.category} if item.category else {}),
                    texts=[
                        _text(line, grades.get(line.key), best, _reward_gain(settings, rewards, line))
                        for line in sorted(texts, key=lambda line: (line.rm, line.view, line.weight))
                    ],
                    profiles=profiles.get(item.id, {}),
                )


def _text(line: GeneratedLine, grade: float | None, best: float | None, reward_gain: float | None) -> ItemText:
    numbers = {"critic": grade, "reward over alone": reward_gain}
    return ItemText(
        label=f"{line.rm} seeing {line.view}, weight {line.weight:g}" if line.rm else "The policy alone",
        text=line.text,
        tags=[
            *(["the critic's best"] if grade is not None and grade == best else []),
            *([] if line.finished else ["cut off"]),
        ],
        highlighted=grade is not None and grade == best,
        numbers={name: number for name, number in numbers.items() if number is not None},
    )


def _reward_gain(
    settings: GuideSettings, rewards: Mapping[PairKey, Sequence[float] | None], line: GeneratedLine
) -> float | None:
    """The reward of a guided text less that of what the policy writes alone, both in one ask."""
    scores = rewards.get((line.policy_view, line.rm, line.view, line.item))
    if scores is None:
        return None
    return scores[settings.weights.index(line.weight)] - scores[settings.weights.index(0.0)]
