"""A board for programs, spreadsheets, terminals and model cards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from palate.evaluation import Calibration
from palate.leaderboard._about import ModelFacts
from palate.leaderboard._board import EVERYBODY, BenchmarkBoard, BoardTable, GroupGap, Row
from palate.leaderboard._entries import Entry
from palate.report import (
    ABSENT,
    CLEAR,
    Bar,
    Columns,
    Document,
    Finding,
    Section,
    Table,
    count,
    document_csv,
    percent,
    percent_interval,
    points,
)
from palate.stats import Figure, PairedTest


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a table, as `board.json` and `palate leaderboard --json` show it. Intervals are 95%."""

    model: str
    entry: str
    kind: str
    control: bool
    run: str
    accuracy: Figure | None
    n: int
    users: int
    unscored: int
    rank: int | None
    """One more than the number of models that are clearly better."""
    better_than: int
    """How many models it is clearly better than."""
    halves: tuple[int, int] | None
    """The best and the worst place that it takes on half of the users, in nine of ten halves."""
    over_none: PairedTest | None
    over_stranger: PairedTest | None
    calibration: Calibration | None
    parameters: int | None
    licence: str | None
    variants: int | None


class TableSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The models under one view, on part of the items."""

    benchmark: str
    benchmark_hash: str
    view: str
    by: str
    """`everybody`, `category`, `difficulty` or `demographics.FIELD`."""
    value: str
    users: int
    leader_stays: float | None
    """How often the leader on one half of the users also leads on the other."""
    agreement: float | None
    """The mean rank correlation between the two halves."""
    rows: list[BoardRow]


class ServedWorse(GroupGap, frozen=True, kw_only=True):
    """A group that a model clearly serves worse than everybody else."""

    benchmark: str
    model: str
    view: str


class BoardSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a board says."""

    title: str
    date: str
    benchmarks: list[str]
    findings: list[Finding]
    left_out: list[str]
    tables: list[TableSummary]
    served_worse: list[ServedWorse]


def board_summary(
    title: str,
    date: str,
    boards: Sequence[BenchmarkBoard],
    facts: Mapping[str, ModelFacts],
    findings: Sequence[Finding],
    left_out: Sequence[str],
) -> BoardSummary:
    """The view that most models were shown comes first for each benchmark."""
    return BoardSummary(
        title=title,
        date=date,
        benchmarks=[board.card.name for board in boards],
        findings=list(findings),
        left_out=list(left_out),
        tables=[
            TableSummary(
                benchmark=board.card.name,
                benchmark_hash=board.hash,
                view=table.view,
                by=table.by,
                value=table.value,
                users=table.users,
                leader_stays=table.leader_stays,
                agreement=table.agreement,
                rows=[_row(board, board.entries[row.entry], table.view, row, facts) for row in table.rows],
            )
            for board in boards
            for table in _default_first(board)
        ],
        served_worse=[
            ServedWorse(benchmark=board.card.name, model=board.names[entry], view=view, **msgspec.structs.asdict(gap))
            for board in boards
            for (entry, view), gaps in board.gaps.items()
            for gap in gaps
            if gap.by.startswith("demographics.") and gap.q < CLEAR and gap.difference < 0
        ],
    )


def _default_first(board: BenchmarkBoard) -> list[BoardTable]:
    return sorted(board.tables.values(), key=lambda table: table.view != board.default_view)


def _row(board: BenchmarkBoard, entry: Entry, view: str, row: Row, facts: Mapping[str, ModelFacts]) -> BoardRow:
    said = facts.get(board.names[entry.id])
    return BoardRow(
        model=board.names[entry.id],
        entry=entry.id,
        kind=entry.kind,
        control=entry.is_control,
        run=board.runs[entry.id][0].facts.run,
        accuracy=row.accuracy,
        n=row.n,
        users=row.users,
        unscored=entry.results[view].unscored,
        rank=row.rank.rank if row.rank else None,
        better_than=row.rank.better if row.rank else 0,
        halves=(row.rank.first, row.rank.last) if row.rank else None,
        over_none=row.over_none,
        over_stranger=row.over_stranger,
        calibration=entry.results[view].calibration,
        parameters=said.parameters if said else None,
        licence=said.licence if said else None,
        variants=said.variants if said else None,
    )


_COLUMNS = (
    "benchmark", "benchmark_hash", "view", "by", "value", "model", "kind", "rank", "better_than", "half_first",
    "half_last", "accuracy", "accuracy_low", "accuracy_high", "n", "users", "unscored", "gain_over_none",
    "gain_over_none_q", "gain_over_stranger", "gain_over_stranger_q", "brier", "ece", "parameters", "licence",
    "variants", "run",
)  # fmt: skip


def board_csv(summary: BoardSummary) -> str:
    """All tables under each other, with full precision."""
    rows = [
        (
            table.benchmark, table.benchmark_hash, table.view, table.by, table.value, row.model, row.kind, row.rank,
            row.better_than, *(row.halves or (None, None)),
            *((row.accuracy.value, row.accuracy.low, row.accuracy.high) if row.accuracy else (None,) * 3),
            row.n, row.users, row.unscored,
            *((row.over_none.difference, row.over_none.q) if row.over_none else (None,) * 2),
            *((row.over_stranger.difference, row.over_stranger.q) if row.over_stranger else (None,) * 2),
            *((row.calibration.brier, row.calibration.ece) if row.calibration else (None,) * 2),
            row.parameters, row.licence, row.variants, row.run,
        )
        for table in summary.tables
        for row in table.rows
    ]  # fmt: skip
    return document_csv(Document(name="", title="", size="", columns=Columns(names=_COLUMNS, rows=rows)))


def board_document(summary: BoardSummary) -> Document:
    """For a terminal: of each benchmark, the models under the view that most of them were shown."""
    sections = []
    for name in summary.benchmarks:
        table = next(one for one in summary.tables if one.benchmark == name and one.by == EVERYBODY)
        sections.append(_section(table))
    models = len({row.entry for table in summary.tables for row in table.rows if not row.control})
    return Document(
        name="Leaderboard",
        title=summary.title,
        size=f"{count(models, 'model')}, {count(len(summary.benchmarks), 'benchmark')}",
        findings=summary.findings,
        sections=sections,
    )


_TERMINAL_ROWS = 20


def _section(table: TableSummary) -> Section:
    shown = table.rows[:_TERMINAL_ROWS]
    left_out = len(table.rows) - len(shown)
    return Section(
        title=f"{table.benchmark}, seeing {table.view}",
        blocks=[
            Table(
                titles=(
                    "reward model",
                    "rank",
                    "accuracy",
                    "95%",
                    "places on\nhalf the users",
                    "over\nnone",
                    "over\nstranger",
                ),
                words=1,
                rows=[
                    (
                        f"{row.model} (control)" if row.control else row.model,
                        ABSENT if row.rank is None else str(row.rank),
                        percent(row.accuracy.value if row.accuracy else None),
                        percent_interval(row.accuracy.low, row.accuracy.high) if row.accuracy else ABSENT,
                        f"{row.halves[0]}–{row.halves[1]}" if row.halves else ABSENT,
                        _gain(row.over_none),
                        _gain(row.over_stranger),
                    )
                    for row in shown
                ],
                bars=[
                    Bar(row.accuracy.value, row.accuracy.low, row.accuracy.high, 0.5) if row.accuracy else Bar(None)
                    for row in shown
                ],
                note=f"{left_out:,} more are on the page." if left_out else "",
            )
        ],
        small_print=[
            "Rank: one more than the number of models that are clearly better in a paired test over users, q < .05 "
            "over all pairs. * is a gain with q < .05."
        ],
        terminal=True,
    )


def _gain(test: PairedTest | None) -> str:
    return ABSENT if test is None else points(test.difference) + ("*" if test.q < CLEAR else "")


def model_index(board: BenchmarkBoard, entry: Entry) -> str:
    """The `model-index` block of a model card: YAML whose every text is quoted."""
    lines = ["model-index:", f"- name: {_quoted(board.names[entry.id])}", "  results:"]
    for table in board.tables.values():
        row = next((row for row in table.rows if row.entry == entry.id), None)
        if table.by != EVERYBODY or row is None or row.accuracy is None:
            continue
        lines += [
            "  - task:",
            "      type: reward-modeling",
            '      name: "Which response this person prefers"',
            "    dataset:",
            f"      name: {_quoted(board.card.title)}",
            f"      type: {_quoted(board.card.name)}",
            f"      config: {_quoted('seeing ' + table.view)}",
            f"      revision: {_quoted(board.hash)}",
            "    metrics:",
            "    - type: accuracy",
            f"      name: {_quoted('Accuracy, seeing ' + table.view)}",
            f"      value: {row.accuracy.value:.6f}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as YAML and JSON write it alike."""
    return json.dumps(text)
