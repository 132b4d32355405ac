"""What an evaluation has to say: findings, tables, plots, and the columns of results.csv."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from palate.evaluation._findings import NO_PERSONAL_GAIN, findings_of
from palate.evaluation._order import ModelRows, ResultRow, condensed, groups, telling_differences
from palate.evaluation._plots import (
    accuracy_plot,
    baseline_plot,
    cold_start_chart,
    difference_plot,
    gain_plot,
    histograms,
    users_chart,
    users_curve,
)
from palate.evaluation._results import Gain, Slice, Summary
from palate.report import (
    ABSENT,
    CLEAR,
    Bar,
    Block,
    Cell,
    Columns,
    Document,
    ItemCard,
    Section,
    Table,
    TableChoice,
    chance_of_error,
    count,
    document_of,
    natural_order,
    percent,
    percent_interval,
    points,
    points_interval,
)
from palate.stats import Estimate, PairedTest

MOST_VALUES = 15
"""How many values of one field a table of slices shows, those with most items first."""
COLUMNS: dict[str, str] = {
    "rm": "the reward model",
    "view": "what of the user it saw",
    "of": "for swapped and twin views, the view that was taken from somebody else",
    "n": "items with a score",
    "users": "users with at least one scored item",
    "accuracy": "share of scored items where the preferred response comes first; a tie is its fair share",
    "accuracy_low": "lower end of the 95% interval, resampling users",
    "accuracy_high": "upper end of it",
    "macro": "mean over users of each user's accuracy",
    "worst_tenth": "accuracy of the tenth of users served worst, picked on half of their items, measured on the others",
    "worst_tenth_low": "lower end of its 95% interval",
    "worst_tenth_high": "upper end of it",
    "chance": "what guessing gets on the same items",
    "ties": "scored items where the model could not choose",
    "unscored": "items without a score, left out of the accuracy",
    "empty": "items whose view had nothing to show",
    "notes": "scored items that carry a note",
    "gain_over_none": "accuracy minus accuracy under none, on the same items",
    "gain_over_none_low": "lower end of its 95% interval",
    "gain_over_none_high": "upper end of it",
    "gain_over_none_q": "its false discovery rate over all gains of the run",
    "stranger": "the view of somebody else that the next four columns compare with",
    "gain_over_stranger": "accuracy minus accuracy under that view, on the same items",
    "gain_over_stranger_low": "lower end of its 95% interval",
    "gain_over_stranger_high": "upper end of it",
    "gain_over_stranger_q": "its false discovery rate over all gains of the run",
    "oracle_gap_closed": "how far the view gets from none towards oracle",
    "oracle_gap_closed_low": "lower end of its 95% interval",
    "oracle_gap_closed_high": "upper end of it",
    "length_controlled": "mean of the accuracy where the preferred response is longer and where it is shorter",
    "length_controlled_low": "lower end of its 95% interval",
    "length_controlled_high": "upper end of it",
    "twin_consistency": "share of twin pairs where both twins are right",
    "twin_consistency_low": "lower end of its 95% interval",
    "twin_consistency_high": "upper end of it",
    "calibration_n": "scored items with probabilities",
    "brier": "mean squared error of the probabilities",
    "ece": "expected calibration error, 10 bins",
}
"""Every column of results.csv in order, with what it means. Shares are from 0 to 1; an empty cell is unknown."""


def evaluation_document(summary: Summary, items: Sequence[ItemCard] = (), *, left_out: int = 0) -> Document:
    """What the run says; `left_out` of its items are not among `items`."""
    found = groups(summary)
    models = sum(not group.control for group in found)
    known = (
        count(models, "reward model knows", "reward models know")
        if models
        else count(len(found), "control knows", "controls know")
    )
    lead = (
        f"How well {known} "
        f"{count(summary.users, 'person', 'people')}, judged on {count(summary.items, 'choice')} they made."
    )
    return document_of(
        summary,
        name="Training" if summary.split else "Evaluation",
        size=f"{count(summary.items, 'item')}, {count(summary.users, 'user')}, seed {summary.seed}",
        lead=f"{lead} {summary.split}" if summary.split else lead,
        facts={},
        unfinished="Not every item is rated yet. The numbers will change.",
        findings=findings_of(summary),
        sections=[
            _accuracy(summary, found),
            _cold_start(summary),
            _users_curve(summary),
            _over_baseline(summary),
            _gains(summary),
            _worst(summary, found),
            _users(summary),
            _costs(summary),
            _slices(summary, found),
            _differences(summary),
        ],
        items=items,
        left_out=left_out,
        columns=Columns(names=list(COLUMNS), rows=[tuple(_cells(row)) for group in found for row in group.rows]),
    )


def _accuracy(summary: Summary, found: Sequence[ModelRows]) -> Section:
    chances = {percent(result.chance) for result in summary.results if result.chance is not None}
    chance = f"Chance is {chances.pop()}. " if len(chances) == 1 else ""
    models = [group for group in found if not group.control]
    controls = [group for group in found if group.control]
    return Section(
        title="Accuracy",
        lead="How often the response that the person preferred gets the highest score.",
        blocks=_plot_and_tables(
            accuracy_plot(summary),
            _results(models, "", folded="The same as a table, with ties and unscored items"),
            _results(controls, "Controls, which understand nothing", folded="Controls, which understand nothing"),
        ),
        small_print=[
            f"{chance}Gains in percentage points; * is q < .05, the false discovery rate over all gains. A tie counts "
            f"its fair share; unscored items are left out. Intervals are 95% and resample {summary.resampled}.",
            *summary.strangers,
        ],
        terminal=True,
    )


def _results(found: Sequence[ModelRows], title: str, *, folded: str) -> Table | None:
    if not found:
        return None
    rows = [(group.rm, row) for group in found for row in condensed(group)]
    numbers = ("accuracy", "95%", "over\nnone", "over\nswapped", "oracle\ngap", "ties", "un-\nscored", "n")
    return Table(
        title=title,
        titles=("reward model", "view", *numbers, "mean over users"),
        words=2,
        rows=[(rm, row.label, *_numbers(row)) for rm, row in rows],
        bars=[Bar(row.result.accuracy, row.result.low, row.result.high, row.result.chance) for _, row in rows],
        headings=True,
        extra=1,
        dim=title != "",
        folded=folded,
    )


def _numbers(row: ResultRow) -> Iterator[str]:
    result = row.result
    yield "no score" if result.accuracy is None else percent(result.accuracy)
    yield percent_interval(result.low, result.high)
    yield _marked(row.over_none)
    yield _marked(row.over_stranger)
    yield percent(result.oracle_gap_closed.value if result.oracle_gap_closed else None)
    yield from (f"{number:,}" for number in (result.ties, result.unscored, result.n))
    yield percent(result.macro)


def _marked(gain: Gain | None) -> str:
    if gain is None:
        return ABSENT
    return points(gain.difference) + ("*" if gain.q < CLEAR else "")


def _cold_start(summary: Summary) -> Section | None:
    chart = cold_start_chart(summary)
    if chart is None:
        return None
    lead = "Accuracy on the same items as more of the user's judgements are known. Bands are 95% intervals over users."
    return Section(title="Cold start", lead=lead, blocks=[chart])


def _users_curve(summary: Summary) -> Section | None:
    curve = users_curve(summary)
    if not curve:
        return None
    rows = [
        (
            method,
            "all" if users is None else f"{users:,}",
            percent(result.accuracy),
            percent_interval(result.low, result.high),
            f"{result.n:,}",
        )
        for method, users, result in curve
    ]
    return Section(
        title="How many users to train on",
        name="Users trained on",
        lead=f"Accuracy with {curve[0][2].view} on the same items of the same held-out users, as more other users are "
        "trained on. Each number of users holds the smaller ones. Bands are 95% intervals over the held-out users.",
        blocks=_plot_and_tables(
            users_chart(summary),
            Table(titles=("model", "users\ntrained on", "accuracy", "95%", "n"), words=1, rows=rows, headings=True),
        ),
        small_print=["The intervals do not cover which users were drawn to train on; other seeds draw others."],
        terminal=True,
    )


def _gains(summary: Summary) -> Section | None:
    if not summary.gains:
        return None
    rows = [(one.rm, one.view, one.over, points(one.difference), *_certainty(one)) for one in summary.gains]
    return Section(
        title="Personalisation gain",
        name="Gains",
        lead="What a view adds on the same items: over no profile at all, and over somebody else's profile of the same "
        "kind. A model that uses the person's own profile gains over both.",
        blocks=_plot_and_tables(
            gain_plot(summary),
            _tests(
                ("reward model", "view", "over", "gain"), rows, "The same as a table, with controls that never change"
            ),
        ),
    )


def _over_baseline(summary: Summary) -> Section | None:
    if not summary.over_baseline:
        return None
    order = list(dict.fromkeys((one.rm, one.view) for one in summary.over_baseline))
    rows = [
        (
            one.rm,
            one.view,
            "all users" if one.known == "any" else f"{one.known} judgements",
            points(one.difference) + ("*" if one.q < CLEAR else ""),
            *_certainty(one),
        )
        for one in sorted(summary.over_baseline, key=lambda one: order.index((one.rm, one.view)))
    ]
    return Section(
        title=f"Against {summary.over_baseline[0].than}, which knows nobody",
        name="Against impersonal",
        lead="Whether each model is better than the impersonal one on the same items; below each view, the same for "
        "users of whom little and much is known.",
        blocks=_plot_and_tables(
            baseline_plot(summary),
            _tests(("reward model", "view", "known of\nthe user", "difference"), rows, "The same as a table"),
        ),
        small_print=[NO_PERSONAL_GAIN],
        terminal=True,
    )


def _differences(summary: Summary) -> Section | None:
    found = telling_differences(summary)
    if not found:
        return None
    rows = [(one.view, one.rm, one.than, points(one.difference), *_certainty(one)) for one in found]
    return Section(
        title="Differences between models",
        name="Differences",
        lead="One model minus another on the items that both scored, under the same view. The plot leaves out views "
        "that show nobody or somebody else. Pairs of controls are in the JSON form only.",
        blocks=_plot_and_tables(
            difference_plot(summary),
            _tests(("view", "reward model", "minus", "difference"), rows, "Every view as a table"),
        ),
    )


def _tests(titles: tuple[str, ...], rows: list[tuple[str, ...]], folded: str) -> Table:
    return Table(titles=(*titles, "95%", "q", "users", "n"), words=3, rows=rows, headings=True, folded=folded)


def _certainty(one: PairedTest) -> tuple[str, ...]:
    return points_interval(one.low, one.high), chance_of_error(one.q), f"{one.users:,}", f"{one.n:,}"


def _worst(summary: Summary, found: Sequence[ModelRows]) -> Section | None:
    rows = [(group.rm, row.label, row.result.worst_tenth) for group in found for row in condensed(group)]
    shown = [(rm, label, worst) for rm, label, worst in rows if worst]
    if not shown:
        return None
    return Section(
        title="The users served worst",
        name="Worst tenth",
        lead="Accuracy for the tenth of users served worst. They are picked on one half of their items and measured on "
        "the other, since those picked for a low figure had bad luck too.",
        blocks=[
            Table(
                titles=("reward model", "view", "worst\ntenth", "95%", "all\nusers", "users"),
                words=2,
                rows=[
                    (
                        rm,
                        label,
                        percent(worst.accuracy),
                        percent_interval(worst.low, worst.high),
                        percent(worst.everybody),
                        f"{worst.users:,}",
                    )
                    for rm, label, worst in shown
                ],
                headings=True,
            )
        ],
        small_print=[
            "Means over users with 4 scored items or more. If all users were served alike, both columns would agree. "
            "Half of a user's items may pick the wrong users, so the true worst tenth may be served worse than this."
        ],
        terminal=bool(summary.split),
    )


def _costs(summary: Summary) -> Section | None:
    if not summary.costs:
        return None
    rows = [
        (one.rm, f"{one.bytes:,}", _milliseconds(one.adapt_ms), _milliseconds(one.score_ms)) for one in summary.costs
    ]
    return Section(
        title="What a user costs",
        name="Costs",
        lead="What each trained model keeps of one user beyond what all users share, and how long it takes.",
        blocks=[Table(titles=("model", "bytes\nkept", "ms to\nadapt", "ms to\nscore"), words=1, rows=rows)],
        small_print=[
            "Medians, on the machine that trained: bytes as saved; adapting to the last 8 choices of a new user; "
            "scoring two responses for a known user. Features were cached, so the encoder's time is not in it."
        ],
        terminal=True,
    )


def _milliseconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _users(summary: Summary) -> Section | None:
    shown = histograms(summary)
    if not shown:
        return None
    return Section(
        title="User by user",
        name="Users",
        lead="Each histogram counts users by their own accuracy; hollow bars are users below chance. A good mean can "
        "hide people who are served worse than a coin would serve them. With few items each, luck alone puts some "
        "below chance, so the count expected from guessing is shown too.",
        blocks=shown,
    )


def _slices(summary: Summary, found: Sequence[ModelRows]) -> Section | None:
    parts: dict[tuple[str, str], dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for part in summary.slices:
        parts[part.rm, part.view][part.by].append(part)
    rows = [(group, row) for group in found for row in group.rows if (group.rm, row.result.view) in parts]
    if not rows:
        return None
    seen = (place for place, (group, row) in enumerate(rows) if not group.control and row.kind == "profile")
    return Section(
        title="Slices",
        lead="Accuracy on parts of the items. Small parts have wide intervals; a difference between two parts is not "
        "tested here.",
        blocks=[
            TableChoice(
                label="Reward model and view",
                tables=[_slice_table(group.rm, row, parts[group.rm, row.result.view]) for group, row in rows],
                first=next(seen, 0),
            )
        ],
    )


def _slice_table(rm: str, row: ResultRow, fields: dict[str, list[Slice]]) -> Table:
    shown = [(by.removeprefix("demographics."), part) for by, own in fields.items() for part in ordered_slices(own)]
    left_out = sum(map(len, fields.values())) - len(shown)
    return Table(
        title=f"{rm}, {row.label}",
        titles=("field", "part", "accuracy", "95%", "users", "n"),
        words=2,
        rows=[
            (
                by.replace("_", " "),
                part.value.replace("_", " "),
                percent(part.accuracy),
                percent_interval(part.low, part.high),
                f"{part.users:,}",
                f"{part.n:,}",
            )
            for by, part in shown
        ],
        bars=[Bar(part.accuracy, part.low, part.high, row.result.chance) for _, part in shown],
        headings=True,
        note=f"{count(left_out, 'smaller part is', 'smaller parts are')} in summary.json only." if left_out else "",
    )


def ordered_slices(slices: Sequence[Slice]) -> list[Slice]:
    """The largest parts, in the order of their amounts where they are amounts, else from most items to fewest."""
    largest = sorted(slices, key=lambda part: (-part.n, part.value))[:MOST_VALUES]
    order = natural_order(part.value for part in largest)
    return largest if order is None else sorted(largest, key=lambda part: order.index(part.value))


def _plot_and_tables(*blocks: Block | None) -> list[Block]:
    return [block for block in blocks if block is not None]


def _cells(row: ResultRow) -> Iterator[Cell]:
    result, calibration = row.result, row.result.calibration
    yield from (result.rm, result.view, result.of, result.n, result.users)
    yield from (result.accuracy, result.low, result.high, result.macro)
    worst = result.worst_tenth
    yield from (worst.accuracy, worst.low, worst.high) if worst else (None, None, None)
    yield result.chance
    yield from (result.ties, result.unscored, result.empty, result.notes)
    yield from _gain_cells(row.over_none)
    yield row.over_stranger.over if row.over_stranger else None
    yield from _gain_cells(row.over_stranger)
    yield from _estimate_cells(result.oracle_gap_closed)
    yield from _estimate_cells(result.length_controlled)
    yield from _estimate_cells(result.twin_consistency)
    yield from (calibration.n, calibration.brier, calibration.ece) if calibration else (None, None, None)


def _gain_cells(gain: Gain | None) -> tuple[Cell, ...]:
    return (gain.difference, gain.low, gain.high, gain.q) if gain else (None, None, None, None)


def _estimate_cells(estimate: Estimate | None) -> tuple[Cell, ...]:
    return (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)
