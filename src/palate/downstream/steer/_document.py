"""What the table of steering shows."""

from __future__ import annotations

from collections.abc import Sequence

from palate.downstream._items import view_table
from palate.downstream._personal import personal_table, table_section
from palate.downstream.best_of_n import BEST_OF_N
from palate.downstream.steer._results import MEASURES, Measure, SteerDifference, SteerRow, SteerSummary
from palate.downstream.steer._run import SteerSettings, sampled_part
from palate.report import (
    ABSENT,
    CLEAR,
    IN_PERCENT,
    SCORES,
    Across,
    Chart,
    Document,
    Dot,
    NumberFormat,
    Section,
    Table,
    chance_of_error,
    count,
    document_of,
    draw_dots,
    figure,
    figure_interval,
    percent,
    points,
    points_interval,
)
from palate.runs import Run
from palate.stats import Figure

FOOTNOTE = (
    "Reward accuracy: how often the reward model scores the user's own text above the other of its pair. Policy "
    "accuracy: how often the policy, so steered, finds it likelier per token; best-of-N has none. ROUGE and likeness: "
    "how like the written text is to the user's own. The policy alone, sampled, is the mean over all samples, which is "
    "what a random choice among them gives. * is q < .05 against the policy alone with the same decoding, over all "
    "differences of the table. A stranger's view is the mean over several strangers where a text is only chosen or "
    "rated, and of one where it is written. Below each number is its 95% interval, which resamples users."
)


def steer_document(run: Run[SteerSettings], summary: SteerSummary, *, users: bool) -> Document:
    """Every method against what the user wrote, and the samples that reward models chose from."""
    best = sampled_part(run, run.settings.best_of_n)
    items = BEST_OF_N.document(best, BEST_OF_N.summarise(best), users=users).items if users else ()
    main = main_table(summary)
    return document_of(
        summary,
        name="Steering",
        size=f"{count(summary.items, 'pair')}, {count(summary.users, 'user')}, seed {summary.seed}",
        lead=f"{summary.policy} writes {count(summary.samples, 'sample')} for each prompt (temperature "
        f"{summary.temperature:g}, top_p {summary.top_p:g}, at most {summary.tokens} tokens). Reward models see "
        f"{', '.join(summary.views)}; they guide with weight {summary.weight:g} among {summary.top_k} tokens.",
        facts={"Policy": summary.policy},
        unfinished="Not every part is done yet. The numbers will change.",
        findings=summary.findings,
        sections=[
            Section(title=main.title, name="Methods", blocks=[main], small_print=[FOOTNOTE], terminal=True),
            _pictures(summary),
            table_section("Own view", personal_table(summary.personal), terminal=True),
            table_section("Differences", difference_table(summary)),
            table_section("Views", view_table(summary.shown)),
            Section(title="Runs that the table is made of", name="Runs", blocks=[parts_table(summary)]),
        ],
        items=items,
        left_out=summary.items - len(items),
    )


def _pictures(summary: SteerSummary) -> Section | None:
    charts = _charts(summary)
    if not charts:
        return None
    return Section(
        title="Does knowing the pairs make the better text?",
        name="Pairs and texts",
        lead="A dot for each method with a reward model: round where it guides, square where it chooses. Lines across "
        "have none.",
        blocks=charts,
    )


def _charts(summary: SteerSummary) -> list[Chart]:
    """Reward accuracy against policy accuracy, and against what ROUGE-1 gains over the policy alone: no controls."""
    shown = [row for row in summary.rows if not row.control]
    policy = {
        row.label: row.policy.value
        for row in shown
        if row.policy is not None and (row.kind == "guided" or row.decoding == "sampled")
    }
    gains = {
        one.one: one.difference for one in summary.differences if one.about == "over none" and one.measure == "rouge1"
    }
    gains |= {row.label: 0.0 for row in summary.rows if row.kind == "none" and row.decoding == "sampled"}
    texts = [row for row in shown if row.kind != "oracle"]
    drawn = [
        _chart(shown, policy, IN_PERCENT, "Policy accuracy against reward accuracy", "policy accuracy"),
        _chart(texts, gains, SCORES, "ROUGE-1 gain over the policy alone against reward accuracy", "ROUGE-1 gain"),
    ]
    return [chart for chart in drawn if chart is not None]


def _chart(
    rows: Sequence[SteerRow], values: dict[str, float], written: NumberFormat, title: str, side: str
) -> Chart | None:
    shown = [row for row in rows if row.label in values]
    return draw_dots(
        [
            Dot(
                name=row.label,
                across=row.reward.value,
                up=values[row.label],
                shape="square" if row.kind == "best-of-n" else "circle",
                like=row.name,
            )
            for row in shown
            if row.reward is not None
        ],
        IN_PERCENT,
        written,
        title=title,
        axis="reward accuracy",
        side=side,
        levels=[Across(row.label, values[row.label]) for row in shown if row.reward is None],
        include=[0.5],
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
