"""A build as a kind of run: its yields and its gate, from the folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from palate.build._assemble import Assembled, assemble
from palate.build._card import Spent, spent
from palate.build._gate import GateResult
from palate.build._records import GATE, KIND, LEDGERS, MONEY, BuildSettings, Yield
from palate.report import (
    Columns,
    Document,
    Finding,
    ItemCard,
    ItemText,
    Section,
    Table,
    count,
    document_of,
    percent,
    percent_interval,
)
from palate.runs import Experiment, Ledger, Reading, Run, RunSummary, common_fields

MOST_CARDS = 200
"""Items that the page shows; all of them are in the ledgers."""


class BuildSummary(RunSummary, frozen=True, kw_only=True):
    """What a build says."""

    candidates: str
    """`accepted`, `divergent` or `generated`."""
    contrasts: dict[str, int]
    twins: int
    yields: list[Yield]
    gate: GateResult | None
    """Absent until the benchmark was measured."""
    spent: list[Spent]


class Build(Experiment[BuildSettings, BuildSummary]):
    """A benchmark made from raw histories."""

    kind = KIND
    command = "palate build"
    settings = BuildSettings

    def ledgers(self, settings: BuildSettings) -> Sequence[Ledger[Any]]:
        """All of them, also where a stage is not asked for and its file is empty."""
        return LEDGERS

    def summarise(self, run: Run[BuildSettings], reading: Reading | None = None) -> BuildSummary:
        """Counts and the gate."""
        return summary_of(run, assemble(run))

    def document(self, run: Run[BuildSettings], summary: BuildSummary, *, users: bool = True) -> Document:
        """The gate, the yields, the money, and some items."""
        return document_of(
            summary,
            name="Build",
            size=f"{count(summary.items, 'item')}, {count(summary.users, 'user')}, seed {summary.seed}",
            lead="Each stage says how many came in, went on, and why others did not.",
            facts={"Candidates": summary.candidates, "Source": run.settings.benchmark.source},
            unfinished="Not finished. Run the same command again to resume.",
            findings=summary.findings,
            sections=[_gate(summary), _yields(summary), _spent(summary)],
            items=_cards(run) if users else [],
            left_out=max(0, summary.items - MOST_CARDS) if users else summary.items,
            columns=Columns(
                names=("stage", "of", "came", "went"),
                rows=[(one.stage, one.of, one.came, one.went) for one in summary.yields],
            ),
        )

    def left_after_forgetting(self, run: Run[BuildSettings]) -> list[str]:
        """The finished folder is another place."""
        return [
            f"the benchmark that {run.folder} was built into lies elsewhere: name it with --data, or run palate build "
            "again, which writes it without this user"
        ]


def summary_of(run: Run[BuildSettings], assembled: Assembled) -> BuildSummary:
    """What a build says, from what was assembled of it."""
    items = assembled.benchmark.comparisons
    gates = run.lines(GATE)
    line = gates.get(assembled.benchmark.content_hash)
    gate = line.result if line else None
    contrasts = sorted({item.contrast for item in items if item.contrast})
    return BuildSummary(
        **common_fields(
            run,
            items=len(items),
            users=len({item.user_id for item in items}),
            complete=gate is not None,
            findings=list(_findings(gate)),
        ),
        candidates=run.settings.plan.candidates.kind,
        contrasts={name: sum(item.contrast == name for item in items) for name in contrasts},
        twins=sum(item.twin is not None for item in items),
        yields=assembled.yields,
        gate=gate,
        spent=spent(list(run.read(MONEY))),
    )


def _findings(gate: GateResult | None) -> Iterator[Finding]:
    if gate is None:
        return
    yield Finding("good" if gate.passes else "warning", gate.first_line)


def _gate(summary: BuildSummary) -> Section | None:
    if summary.gate is None:
        return None
    rows = [
        (
            one.kind,
            one.by,
            "" if one.accuracy is None else percent(one.accuracy),
            percent_interval(one.low, one.high),
            "" if one.chance is None else percent(one.chance),
            f"{one.n:,}",
            one.verdict,
        )
        for one in summary.gate.measures
    ]
    table = Table(titles=("measure", "by", "accuracy", "95%", "chance", "n", "verdict"), words=2, rows=rows)
    return Section(
        title="Can the label be told without knowing the user?",
        name="Gate",
        lead=f"Every measure has to be within {100 * summary.gate.within:g} points of chance.",
        blocks=[table],
        terminal=True,
    )


def _yields(summary: BuildSummary) -> Section:
    rows = [(one.stage, one.of, f"{one.came:,}", f"{one.went:,}") for one in summary.yields]
    why = [
        (one.stage, reason, f"{number:,}")
        for one in summary.yields
        for reason, number in sorted(one.why.items(), key=lambda pair: -pair[1])
    ]
    tables = [Table(titles=("stage", "of", "came", "went on"), words=2, rows=rows)]
    if why:
        tables.append(Table(titles=("stage", "why not", "n"), words=2, rows=why))
    return Section(title="What became of the source?", name="Yields", blocks=tables, terminal=True)


def _spent(summary: BuildSummary) -> Section | None:
    if not summary.spent:
        return None
    rows = [
        (one.stage, f"{one.prompt_tokens:,}", f"{one.completion_tokens:,}", f"{one.cost:.2f}") for one in summary.spent
    ]
    table = Table(titles=("stage", "tokens in", "tokens out", "money"), words=1, rows=rows)
    return Section(title="What did it cost?", name="Cost", blocks=[table], terminal=True)


def _cards(run: Run[BuildSettings]) -> list[ItemCard]:
    return [
        ItemCard(
            id=item.id,
            user=item.user_id,
            prompt=item.prompt,
            texts=[
                ItemText(
                    label=f"Response {place + 1}",
                    text=text,
                    tags=["chosen"] if place == item.preferred else [],
                    highlighted=place == item.preferred,
                )
                for place, text in enumerate(item.responses)
            ],
            facts={
                name: value
                for name, value in (
                    ("category", item.category),
                    ("contrast", item.contrast),
                    ("aspects", "; ".join(one.aspect for one in item.privileged.aspects)),
                )
                if value
            },
        )
        for item in assemble(run).benchmark.comparisons[:MOST_CARDS]
    ]


BUILD = Build()
