"""What a report on reach shows."""

from __future__ import annotations

from collections.abc import Iterator

from palate.downstream._items import ITEMS, browsed, view_table
from palate.downstream._personal import table_section
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._document import sample_table
from palate.downstream.best_of_n._run import GRADES, RATINGS
from palate.downstream.reach._results import ReachSummary
from palate.downstream.reach._run import ReachSettings
from palate.evaluation import item_rating
from palate.report import (
    ABSENT,
    CLEAR,
    Document,
    ItemCard,
    ItemRating,
    ItemText,
    Section,
    Table,
    chance_of_error,
    count,
    document_of,
    figure,
    figure_interval,
    percent,
)
from palate.runs import Run, profiles_shown
from palate.stats import PairedTest

FOOTNOTE = (
    "In critic points for each root-nat, a unit of sqrt(2 KL) from the untrained policy, to first order. Reach: what "
    "the reward's gradient brings people who gave none of it (own view), less what a step of the same length brings "
    "along the gradient of the reward that saw strangers. "
    "If followed: what a policy would gain that could follow the reward perfectly. Agrees: how often the reward orders "
    "two texts of a prompt as the critic does. (critic): its own scores as the reward. * is "
    "q < .05 over all tests of the run; intervals are 95% and resample users."
)
RISE = (
    "In deviations of the reward within prompts, for each root-nat; 1 is the most there can be. Personal: the own "
    "view's gradient less strangers', by a step of the same length."
)


def _how(summary: ReachSummary) -> str:
    return "" if summary.sketch is None else f", approximately: by random projections of size {summary.sketch}"


def reach_document(run: Run[ReachSettings], summary: ReachSummary, *, users: bool) -> Document:
    """Reach and what it is made of, how far the reward itself would rise, and the samples."""
    items = list(_cards(run)) if users else []
    reached = reach_table(summary)
    rise = rise_table(summary)
    return document_of(
        summary,
        name="Reach",
        size=f"{count(summary.counted, 'prompt')}, {count(sum(summary.halves), 'user')}, seed {summary.seed}",
        lead=f"{summary.policy}, seeing {summary.policy_view}, writes {count(summary.drawn, 'sample')} for each prompt "
        f"(temperature {summary.temperature:g}, top_p {summary.top_p:g}, at most {summary.tokens} tokens). Reward "
        f"models see {summary.view}, and the same of strangers; {summary.critic} grades. The gradient of one half of "
        f"the users is read on the other half{_how(summary)}.",
        facts={"Policy": summary.policy, "Critic": summary.critic},
        unfinished="Not everything is sampled, rated, graded and read yet. The numbers will change.",
        findings=summary.findings,
        sections=[
            Section(
                title=reached.title,
                name="Reach",
                lead="What training with a reward would bring people whom it was not trained on.",
                blocks=[reached],
                small_print=[FOOTNOTE],
                terminal=True,
            ),
            Section(title=rise.title, name="Rise", blocks=[rise], small_print=[RISE], terminal=True),
            table_section("Samples", sample_table([summary.samples])),
            table_section("Views", view_table(summary.shown)),
        ],
        items=items,
        left_out=summary.items - len(items),
    )


def reach_table(summary: ReachSummary) -> Table:
    """A row for each reward model, and one for the critic."""
    rows = [
        (
            one.rm,
            _value(one.reach, star=True),
            _limits(one.reach),
            _q(one.reach),
            _value(one.pays, star=True),
            _value(one.pays_stranger, star=True),
            _value(one.followed),
            percent(one.agreement.value if one.agreement else None),
            f"{one.reach.n if one.reach else 0:,}",
        )
        for one in summary.models
    ]
    truth = summary.critic_pays
    rows.append(("(critic)", "", "", "", _value(truth, star=True), "", "", "", f"{truth.n if truth else 0:,}"))
    return Table(
        title="Reach: what a small step along the reward's gradient brings, in the critic's score",
        titles=("reward", "reach", "95%", "q", "own\nview", "strangers'", "if\nfollowed", "agrees", "n"),
        words=1,
        rows=rows,
    )


def rise_table(summary: ReachSummary) -> Table:
    """How far the reward itself would rise."""
    return Table(
        title="Rise: what the same step brings in the reward itself",
        titles=("reward", "personal", "95%", "q", "own\nview", "95% ", "strangers'"),
        words=1,
        rows=[
            (
                one.rm,
                _value(one.rise_reach, star=True),
                _limits(one.rise_reach),
                _q(one.rise_reach),
                _value(one.rise, star=True),
                _limits(one.rise),
                _value(one.rise_stranger, star=True),
            )
            for one in summary.models
        ],
    )


def _value(one: PairedTest | None, *, star: bool = False) -> str:
    if one is None:
        return ABSENT
    return figure(one.difference, sign=True) + (("*" if one.q < CLEAR else " ") if star else "")


def _limits(one: PairedTest | None) -> str:
    return ABSENT if one is None else figure_interval(one.low, one.high, sign=True)


def _q(one: PairedTest | None) -> str:
    return ABSENT if one is None else chance_of_error(one.q)


def _cards(run: Run[ReachSettings]) -> Iterator[ItemCard]:
    """Every prompt with its samples, and what the critic and the reward models say of them."""
    items = browsed(run.read(ITEMS))
    name, samples, grades = run.settings.policy_view.name, run.lines(SAMPLES), run.lines(GRADES)
    profiles = profiles_shown(run, {item.id for item in items})
    ratings: dict[str, list[ItemRating]] = {}
    for line in run.read(RATINGS):
        rating = line.rating
        scores = list(rating.scores) if rating.scores is not None else None
        ratings.setdefault(line.item, []).append(item_rating(line.rm, line.view, rating, scores=scores))
    for item in items:
        drawn, graded = samples.get((name, item.id)), grades.get((name, item.id))
        if drawn is None or drawn.failed is not None:
            continue
        marks = [grade.score for grade in graded.grades] if graded else [None] * len(drawn.texts)
        top = max((mark for mark in marks if mark is not None), default=None)
        yield ItemCard(
            id=item.id,
            user=item.user_id,
            prompt=item.prompt,
            facts={"category": item.category} if item.category else {},
            texts=[
                ItemText(
                    label=f"Sample {place + 1}",
                    text=text,
                    tags=["the critic's best"] if mark is not None and mark == top else [],
                    highlighted=mark is not None and mark == top,
                    numbers={} if mark is None else {"critic": mark},
                )
                for place, (text, mark) in enumerate(zip(drawn.texts, marks, strict=True))
            ],
            profiles=profiles.get(item.id, {}),
            ratings=ratings.get(item.id, []),
        )
