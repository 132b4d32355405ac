"""The card of a finished benchmark: what the gate says, where it comes from, and what was lost on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from palate.build._gate import GateResult
from palate.build._plan import Plan
from palate.build._records import BuildSettings, MoneyLine, SelectedItem, Yield
from palate.records import Benchmark, Card, Comparison
from palate.report import count, percent, percent_interval
from palate.runs import write_whole

ATTRIBUTION = "ATTRIBUTION.md"
CARD = "CARD.md"
_KINDS = {
    "accepted": "The asker accepted one answer and left the others.",
    "divergent": "The asker accepted one answer, and the community gave another one more votes.",
    "generated": "One generator wrote both responses under the same limits; a rubric of the user's own says which one "
    "they would prefer.",
}


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money of one stage, over all calls of the command."""

    stage: str
    prompt_tokens: int
    completion_tokens: int
    cost: float


def spent(lines: Sequence[MoneyLine]) -> list[Spent]:
    """Sums by stage, in the order of the stages."""
    return [
        Spent(
            stage=stage,
            prompt_tokens=sum(line.prompt_tokens for line in lines if line.stage == stage),
            completion_tokens=sum(line.completion_tokens for line in lines if line.stage == stage),
            cost=sum(line.cost for line in lines if line.stage == stage),
        )
        for stage in dict.fromkeys(line.stage for line in lines)
    ]


def plan_card(plan: Plan, licence: str, where: str) -> Card:
    """The card before anything is built."""
    return Card(
        name=plan.name,
        title=plan.title or plan.name,
        version=plan.version,
        licence=licence,
        source=where,
        description=_KINDS[plan.candidates.kind],
    )


def with_gate(benchmark: Benchmark, gate: GateResult, yields: Sequence[Yield]) -> Benchmark:
    """The benchmark with a card that begins with what the gate says."""
    card = benchmark.card
    notes = [*card.notes, *(yield_text(one) for one in yields)]
    return msgspec.structs.replace(
        benchmark,
        card=msgspec.structs.replace(card, description=f"{gate.first_line} {card.description}", notes=tuple(notes)),
    )


def yield_text(one: Yield) -> str:
    """One stage in a line."""
    why = "; ".join(f"{reason}: {number:,}" for reason, number in sorted(one.why.items()))
    return f"{one.stage}: {one.came:,} {one.of} came, {one.went:,} went on{f' ({why})' if why else ''}"


def write_card(
    folder: Path,
    settings: BuildSettings,
    parts: Mapping[str, Benchmark],
    gate: GateResult,
    yields: Sequence[Yield],
    money: Sequence[Spent],
    validation: Sequence[str] = (),
) -> None:
    """CARD.md, which begins with the gate."""
    plan = settings.plan
    lines = [gate.first_line, "", f"# {plan.title or plan.name}, version {plan.version}", ""]
    lines += [_KINDS[plan.candidates.kind], "", *_counts(parts), ""]
    lines += [
        "## Release gate",
        "",
        "| measure | by | accuracy | 95% | chance | items | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in gate.measures:
        accuracy = "" if one.accuracy is None else percent(one.accuracy)
        chance = "" if one.chance is None else percent(one.chance)
        interval = percent_interval(one.low, one.high)
        verdict = f"{one.verdict}{f': {one.note}' if one.note else ''}"
        lines.append(f"| {one.kind} | {one.by} | {accuracy} | {interval} | {chance} | {one.n:,} | {verdict} |")
    lines += ["", "## Yields", "", "| stage | came | went on | why not |", "|---|---|---|---|"]
    for step in yields:
        why = "; ".join(f"{reason}: {number:,}" for reason, number in sorted(step.why.items()))
        lines.append(f"| {step.stage} | {step.came:,} {step.of} | {step.went:,} | {why} |")
    if validation:
        lines += ["", "## Validation by people", "", *(f"- {sentence}" for sentence in validation)]
    lines += ["", "## Provenance", ""]
    lines += [f"- Source: {settings.benchmark.source}; fingerprint {settings.content_hash[:16]}"]
    lines += [f"- Licence: {settings.benchmark.licence}"]
    if any(part.comparisons for part in parts.values()) and (folder / ATTRIBUTION).is_file():
        lines += [f"- Attribution: {ATTRIBUTION} names the page and the authors of every text"]
    ids = "pseudonyms (HMAC-SHA256 under a key that is not here)" if plan.pseudonyms else "those of the source"
    lines += [f"- Ids: {ids}", f"- Seed: {plan.seed}; palate {settings.palate}"]
    lines += [
        f"- Model for {part}: {_model(plan, part)}; fingerprint {print_[:16]}"
        for part, print_ in settings.models.items()
    ]
    lines += [f"- Prompt {name}: sha256 {digest[:16]}" for name, digest in settings.prompts.items()]
    lines += [f"- Stage {name}: {source}" for name, source in settings.stages.items()]
    lines += [
        f"- Spent on {one.stage}: {one.prompt_tokens:,} tokens in, {one.completion_tokens:,} out, {one.cost:.2f}"
        for one in money
    ]
    write_whole(folder / CARD, ("\n".join(lines) + "\n").encode())


def _model(plan: Plan, part: str) -> str:
    """Its name, without the address and key of a server."""
    return plan.models.get(part, plan.models.get("generator", "")).partition(",")[0]


def _counts(parts: Mapping[str, Benchmark]) -> list[str]:
    rows = ["| part | items | users | twins | contrasts |", "|---|---|---|---|---|"]
    for name, part in parts.items():
        contrasts = {item.contrast for item in part.comparisons if item.contrast}
        by = ", ".join(f"{one} {sum(item.contrast == one for item in part.comparisons):,}" for one in sorted(contrasts))
        twins = sum(item.twin is not None for item in part.comparisons)
        rows.append(f"| {name or 'all'} | {len(part.comparisons):,} | {len(part.users):,} | {twins:,} | {by} |")
    return rows


def write_attribution(
    folder: Path, settings: BuildSettings, comparisons: Sequence[Comparison], items: Mapping[str, SelectedItem]
) -> None:
    """Who wrote what, as the licence asks; sorted by page, so that no line tells which pseudonym is whose."""
    used = {item.id.removesuffix(f"/{item.contrast}") for item in comparisons}
    lines = []
    for id in used:
        item = items.get(id)
        if item is not None and item.page:
            authors = dict.fromkeys([item.author, *(one.author for one in item.answers)])
            lines.append(f"- {item.page} by {', '.join(filter(None, authors))}")
    if not lines:
        (folder / ATTRIBUTION).unlink(missing_ok=True)
        return
    head = [f"{count(len(lines), 'question')} from {settings.benchmark.source}, {settings.benchmark.licence}.", ""]
    write_whole(folder / ATTRIBUTION, ("\n".join([*head, *sorted(lines)]) + "\n").encode())
