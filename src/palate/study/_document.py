"""What the report of a study shows: what predicts what, how good every entry is, and what it cost to know."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from palate.downstream import OWN_REWARD
from palate.report import (
    ABSENT,
    CLEAR,
    COEFFICIENTS,
    IN_PERCENT,
    SCORES,
    Block,
    Columns,
    Document,
    MatrixCell,
    Note,
    NumberFormat,
    ScatterPoint,
    Section,
    SlopeRow,
    Table,
    chance_of_error,
    count,
    document_of,
    draw_matrix,
    draw_scatter,
    draw_slopes,
    figure,
    figure_interval,
    percent,
    percent_interval,
)
from palate.stats import Agreement, Coefficient, FamilyAgreement, Figure
from palate.study._results import EntryResult, NewFamilies, NumberInfo, StudySummary

CHANCE = 0.5
One = TypeVar("One")
ACROSS = 3
"""Numbers with intervals that a terminal of 80 columns shows side by side; further ones are in a table below."""
NARROW = 14
"""As wide as an interval."""


def study_document(summary: StudySummary) -> Document:
    """Agreement first, then which number predicts best, families, entries, costs."""
    document = document_of(
        summary,
        name="Study",
        size=f"{count(len(summary.entries), 'entry', 'entries')}, {count(summary.cells, 'cell')}, seed {summary.seed}",
        lead="An entry is a reward model that sees one view of the user. Each is scored on benchmarks and put to use. "
        "Does the one predict the other?",
        facts={"primary predictor": summary.primary or ABSENT},
        unfinished="" if summary.complete else f"Not finished: {count(len(summary.unfinished), 'cell')}.",
        findings=summary.findings,
        sections=[
            _agreement(summary),
            _predictors(summary),
            _plots(summary),
            _families(summary),
            _in_context(summary),
            _entries(summary),
            _every_coefficient(summary),
            _costs(summary),
            _unfinished(summary),
        ],
        columns=_columns(summary),
    )
    return msgspec.structs.replace(document, title=summary.title)


def _batched(some: Sequence[One], size: int) -> list[Sequence[One]]:
    """In their order, a few at a time."""
    return [some[start : start + size] for start in range(0, len(some), size)]


def _with_limits(one: Coefficient | None, of: str = "") -> str:
    if one is None:
        return ABSENT
    star = "*" if one.q < CLEAR else ""
    limits = "" if one.low is None else f"\n{COEFFICIENTS.interval(one.low, one.high)}"
    return f"{of}{COEFFICIENTS.value(one.value)}{star}{limits}"


def _by_outcome(summary: StudySummary) -> tuple[list[str], list[str], dict[tuple[str, str], Agreement]]:
    """Numbers that one entry alone has are left out, unless all are such: there is no order to agree with."""
    told = [one for one in summary.agreements if one.models > 1] or summary.agreements
    rows, columns = {one.predictor for one in told}, {one.outcome for one in told}
    found = {
        (one.predictor, one.outcome): one
        for one in summary.agreements
        if one.predictor in rows and one.outcome in columns
    }
    return list(dict.fromkeys(row for row, _ in found)), list(dict.fromkeys(column for _, column in found)), found


def _agreement(summary: StudySummary) -> Section | None:
    rows, columns, found = _by_outcome(summary)
    if not found:
        return None
    matrix = draw_matrix(
        rows,
        columns,
        {
            key: MatrixCell(one.spearman.value, one.spearman.low, one.spearman.high, f"{one.models} entries")
            for key, one in found.items()
            if one.spearman is not None
        },
        title="Spearman's rank correlation",
        corner="predictor",
    )
    most = {column: max(one.models for one in summary.agreements if one.outcome == column) for column in columns}

    def cell(row: str, column: str) -> str:
        one = found.get((row, column))
        if one is None:
            return ABSENT
        return _with_limits(one.spearman, f"{one.models}: " if one.models < most[column] else "")

    note = "* clear of chance, q below .05 over the whole table"
    if any(one.models < most[one.outcome] for one in found.values() if one.spearman is not None):
        note += "; 9: +0.50 is over 9 entries only, and not to be compared with numbers over more"
    tables = [
        Table(
            titles=("predictor", *map(_narrow, some)),
            words=1,
            rows=[(row, *(cell(row, one) for one in some)) for row in rows],
            note=note if some[-1] == columns[-1] else "",
            folded="" if matrix is None else f"As a table: {', '.join(some)}",
        )
        for some in _batched(columns, ACROSS)
    ]
    return Section(
        title="What predicts what happens?",
        name="Agreement",
        lead="Spearman's rank correlation over entries. The interval is for other reward models like these and for "
        "other users; p compares with random orders.",
        blocks=[*([] if matrix is None else [matrix]), *tables],
        terminal=True,
    )


def _narrow(name: str) -> str:
    """The name of a number as the title of a column, on as many lines as it takes."""
    return "\n".join(textwrap.wrap(name, NARROW, break_long_words=False, break_on_hyphens=False))


def _predictors(summary: StudySummary) -> Section | None:
    own = [one for one in summary.predictors if one.difference is not None]
    if not own:
        return None
    rows = [
        (
            one.outcome,
            one.first,
            f"{COEFFICIENTS.value(one.difference or 0.0)}{'*' if one.q is not None and one.q < CLEAR else ''}",
            COEFFICIENTS.interval(one.low, one.high),
            chance_of_error(one.p) if one.p is not None else ABSENT,
            chance_of_error(one.q) if one.q is not None else ABSENT,
            str(one.models),
        )
        for one in sorted(own, key=lambda one: (one.outcome, -(one.difference or 0.0)))
    ]
    return Section(
        title=f"Which number predicts best? Each against {summary.primary}",
        name="Which number",
        lead="How much better each number's rank correlation is than that of the primary predictor, without the noise "
        "of users. Both rest on the same entries, so the difference is tested as one.",
        blocks=[
            Table(
                titles=("what happens", "number", "difference", "95%", "p", "q", "entries"),
                words=2,
                headings=True,
                rows=rows,
            )
        ],
        terminal=True,
    )


def _formats(summary: StudySummary) -> dict[str, NumberFormat]:
    return {number.name: IN_PERCENT if number.share else SCORES for number in summary.numbers}


def _of(entry: EntryResult, name: str) -> Figure:
    return entry.numbers.get(name) or Figure(value=float("nan"))


def _plots(summary: StudySummary) -> Section | None:
    """For everything that happened: against the primary predictor, and against the one that goes best with it."""
    blocks: list[Block | None] = []
    formats = _formats(summary)
    families = list(dict.fromkeys(entry.family for entry in summary.entries))
    for outcome in dict.fromkeys(one.outcome for one in summary.agreements):
        own = [one for one in summary.agreements if one.outcome == outcome and one.spearman is not None]
        best = max(own, key=lambda one: one.spearman.value if one.spearman else -1.0, default=None)
        for name in dict.fromkeys(filter(None, (summary.primary, best.predictor if best else None))):
            if not any(one.predictor == name for one in own):
                continue
            share = formats[name] is IN_PERCENT
            blocks.append(
                draw_scatter(
                    [
                        ScatterPoint(
                            label=entry.entry, group=entry.family,
                            x=_of(entry, name).value, x_low=_of(entry, name).low, x_high=_of(entry, name).high,
                            y=_of(entry, outcome).value, y_low=_of(entry, outcome).low, y_high=_of(entry, outcome).high,
                        )
                        for entry in summary.entries
                        if entry.numbers.get(name) and entry.numbers.get(outcome)
                    ],
                    title=f"{outcome} against {name}",
                    x_title=name,
                    y_title=outcome,
                    x_format=formats[name],
                    y_format=formats[outcome],
                    x_references={"chance": CHANCE} if share else {"none": 0.0},
                    y_references={} if formats[outcome] is IN_PERCENT else {"no gain": 0.0},
                    groups=families,
                )
            )  # fmt: skip
        if summary.primary and any(one.predictor == summary.primary for one in own):
            blocks.append(
                draw_slopes(
                    [
                        SlopeRow(
                            label=entry.entry,
                            group=entry.family,
                            left=_of(entry, summary.primary).value,
                            right=_of(entry, outcome).value,
                        )
                        for entry in summary.entries
                        if entry.numbers.get(summary.primary) and entry.numbers.get(outcome)
                    ],
                    title=f"Ranks: {summary.primary} and {outcome}",
                    left_title=summary.primary,
                    right_title=outcome,
                    left_format=formats[summary.primary],
                    right_format=formats[outcome],
                    groups=families,
                )
            )
    there = [block for block in blocks if block is not None]
    if not there:
        return None
    return Section(
        title="Every entry",
        name="Plots",
        lead="Bars are 95% intervals over users, both ways.",
        blocks=there,
    )


def _families(summary: StudySummary) -> Section | None:
    whole = {one.outcome: one for one in summary.new_families}
    rows = [row for one in summary.families for row in _family_rows(one, whole[one.outcome])]
    if not rows:
        return None
    return Section(
        title="Within and between kinds of models",
        name="Families",
        lead="One number over mixed kinds of models may not hold within any of them, or hold in opposite ways in "
        "different ones. The last two columns: how far off a line is that was fitted on all other families, and how "
        "far off their mean is.",
        blocks=[
            Table(
                titles=(
                    "what happens",
                    "over",
                    "rank correlation",
                    "entries",
                    "error of the line",
                    "error of the mean",
                ),
                words=2,
                headings=True,
                rows=rows,
            )
        ],
    )


def _family_rows(one: FamilyAgreement, whole: NewFamilies) -> Iterator[tuple[str, ...]]:
    parts = [
        ("all entries", one.pooled, figure(one.rmse), figure(one.rmse_of_mean)),
        ("within families, each about its mean", one.centred, "", ""),
        ("between the means of families", one.between, "", ""),
        *((part.name, part, "", "") for part in one.within),
    ]
    for place, (name, part, *errors) in enumerate(parts):
        yield one.outcome, name, _with_limits(part.spearman), str(part.n), *errors
        if not place:
            yield one.outcome, "the same, for other families", _with_limits(whole.spearman), f"{whole.families}", "", ""


def _in_context(summary: StudySummary) -> Section | None:
    if not summary.in_context:
        return None
    return Section(
        title="And without any reward model?",
        name="In context",
        lead="What the policy gains when it is itself shown the user's examples, beside the best that a reward model "
        "gained by choosing. That one was picked after looking, which favours it.",
        blocks=[
            Table(
                titles=("use", "the policy sees", "gain", "best reward model", "its gain", "over it"),
                words=2,
                rows=[
                    (
                        one.measure,
                        one.view,
                        _figure(one.gain),
                        one.best or ABSENT,
                        figure(one.best_gain.value if one.best_gain else None, sign=True),
                        _figure(one.over_best),
                    )
                    for one in summary.in_context
                ],
            )
        ],
        terminal=True,
    )


def _main_numbers(summary: StudySummary) -> list[NumberInfo]:
    """The primary predictor, everything that happened, and whether training raised what it paid for."""
    numbers = summary.numbers
    return [one for one in numbers if one.name == summary.primary or one.happens or one.what == OWN_REWARD]


def _written(number: NumberInfo, one: Figure | None) -> str:
    if one is None or not number.share:
        return _figure(one)
    value = percent(one.value)
    return value if one.low is None else f"{value}\n{percent_interval(one.low, one.high)}"


def _figure(one: Figure | None) -> str:
    """With its interval on a line of its own."""
    if one is None:
        return ABSENT
    value = figure(one.value, sign=True)
    return value if one.low is None else f"{value}\n{figure_interval(one.low, one.high, sign=True)}"


def _entries(summary: StudySummary) -> Section:
    return Section(
        title="The entries",
        name="Entries",
        blocks=[
            Table(
                titles=("family", "entry", *(_narrow(number.name) for number in numbers)),
                words=2,
                headings=True,
                rows=[
                    (entry.family, entry.entry, *(_written(one, entry.numbers.get(one.name)) for one in numbers))
                    for entry in sorted(summary.entries, key=lambda entry: entry.family)
                ],
            )
            for numbers in _batched(_main_numbers(summary), ACROSS)
        ],
        terminal=len(summary.entries) <= 40,
    )


def _every_coefficient(summary: StudySummary) -> Section | None:
    own = [one for one in summary.agreements if one.spearman is not None]
    if not own:
        return None
    return Section(
        title="All coefficients",
        name="Coefficients",
        lead="In brackets, what random orders get on average. Pairs: of two entries whose outcomes clearly differ, how "
        "often the predictor has them in the right order. Separability: the share of pairs that the predictor tells "
        "apart. Detectable: the smallest rank correlation that this number of entries shows with a power of 80%.",
        blocks=[
            Table(
                titles=(
                    "what happens", "predictor", "entries", "Pearson", "Spearman", "Kendall", "weighted tau", "RBO",
                    "NDCG", "p", "q", "pairs", "Brier", "separability", "detectable",
                ),
                words=2,
                headings=True,
                rows=[_coefficients(one) for one in sorted(own, key=lambda one: one.outcome)],
                folded=f"{len(own)} pairs of a predictor with what happens",
            )
        ],
    )  # fmt: skip


def _coefficients(one: Agreement) -> tuple[str, ...]:
    def beside_chance(coefficient: Coefficient | None) -> str:
        return ABSENT if coefficient is None else f"{coefficient.value:.3f} ({coefficient.chance:.3f})"

    pairs = ABSENT
    if one.pairs is not None and one.pairs.accuracy is not None:
        pairs = f"{percent(one.pairs.accuracy)} of {one.pairs.n:,}"
    return (
        one.outcome,
        one.predictor,
        str(one.models),
        _with_limits(one.pearson),
        _with_limits(one.spearman),
        _with_limits(one.kendall),
        _with_limits(one.weighted_tau),
        beside_chance(one.rbo),
        beside_chance(one.ndcg),
        chance_of_error(one.spearman.p) if one.spearman else ABSENT,
        chance_of_error(one.spearman.q) if one.spearman else ABSENT,
        pairs,
        figure(one.brier),
        percent(one.separability),
        figure(one.detectable.spearman),
    )


def _costs(summary: StudySummary) -> Section | None:
    if not summary.costs:
        return None
    return Section(
        title="What it cost to know",
        name="Costs",
        lead="Seconds on the clock, added up over cells, also of those that ran side by side. Validity is the rank "
        "correlation of a measure's first number with the last use of the plan.",
        blocks=[
            Table(
                titles=("measure", "device", "cells", "seconds", "tokens written", "items", "validity"),
                words=2,
                rows=[
                    (
                        one.measure,
                        one.device,
                        str(one.cells),
                        f"{one.seconds:,.1f}",
                        f"{one.tokens:,}",
                        f"{one.items:,}",
                        _with_limits(one.validity),
                    )
                    for one in summary.costs
                ],
            )
        ],
    )


def _unfinished(summary: StudySummary) -> Section | None:
    if not summary.unfinished:
        return None
    blocks: Sequence[Block] = [
        Note(f"Run the same command again to go on: {count(len(summary.unfinished), 'cell')} of {summary.cells:,}."),
        Table(
            titles=("cell", "what happened"),
            words=2,
            rows=[(one.cell, one.reason or "not run yet") for one in summary.unfinished],
        ),
    ]
    return Section(title="Not finished", name="Not finished", blocks=blocks)


def _columns(summary: StudySummary) -> Columns:
    numbers = [number.name for number in summary.numbers]
    return Columns(
        names=["entry", "model", "view", "family", *(f"{n}{end}" for n in numbers for end in ("", " low", " high"))],
        rows=[
            (
                entry.entry,
                entry.model,
                entry.view,
                entry.family,
                *(
                    value
                    for name in numbers
                    for one in [entry.numbers.get(name)]
                    for value in ((one.value, one.low, one.high) if one else (None, None, None))
                ),
            )
            for entry in summary.entries
        ],
    )
