"""Many benchmarks on one page: what each can show, and what it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palate.audit._benchmark import audit_benchmark
from palate.audit._benchmark_findings import LARGE_SHORTCUT, is_stranger
from palate.audit._benchmark_results import BenchmarkAudit
from palate.records import PalateError
from palate.report import ABSENT, Document, Finding, Note, Section, Table, percent, percent_interval, points
from palate.runs import Progress
from palate.stats import Estimate


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark of a docket."""

    target: str
    """As it was named."""
    audit: BenchmarkAudit | None
    failed: str | None
    """Why there is no audit."""
    command: str
    """What prints the whole audit."""


def audit_docket(
    targets: Sequence[str],
    *,
    impersonal: bool | None = None,
    seed: int = 0,
    runs: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Case]:
    """Audit one benchmark after the other; one that cannot be audited is named with the reason, and stops no other."""
    if not targets:
        raise PalateError("name the benchmarks of the docket, such as: palate audit --docket mini sim")
    flags = (" --no-impersonal" if impersonal is False else "") + (f" --seed {seed}" if seed else "")
    cases = []
    for target in targets:
        command = f"palate audit {shlex.quote(target)}{flags}"
        try:
            found = audit_benchmark(
                target, impersonal=impersonal, seed=seed, runs=runs, data_dir=data_dir, progress=progress
            )
            cases.append(Case(target=target, audit=found, failed=None, command=command))
        except PalateError as error:
            cases.append(Case(target=target, audit=None, failed=str(error), command=command))
    return cases


def docket_document(cases: Sequence[Case]) -> Document:
    """A row for each benchmark."""
    titles = ("benchmark", "people", "items", "chance", "arte-\nfacts", "95%", "none", "stran-\nger", "head-\nroom")
    rows = [(case.target, *_row(case.audit)) for case in cases if case.audit]
    verdicts = Table(
        titles=("benchmark", "verdict"),
        words=2,
        rows=[(case.target, verdict(case.audit) if case.audit else "Not audited.") for case in cases],
    )
    commands = Table(titles=("each of them in full",), words=1, rows=[(case.command,) for case in cases])
    notes = [
        "artefacts: a model that reads the responses and nothing else, on people and prompts it has not seen. none: "
        "the best other model or rule that ignores the person. stranger: word overlap with a stranger's profile. "
        "headroom: points between the ceiling of a model that ignores the person and that of any model; a ceiling "
        "alone where nobody was asked again."
    ]
    return Document(
        name="Docket",
        title="What these benchmarks can show",
        size=f"{len(cases)} benchmarks",
        findings=[Finding("warning", f"{case.target} was not audited: {case.failed}") for case in cases if case.failed],
        sections=[
            Section(
                title="Docket",
                name="Docket",
                blocks=[Table(titles=titles, words=1, rows=rows), verdicts, commands, *map(Note, notes)],
                terminal=True,
            )
        ],
    )


def _row(audit: BenchmarkAudit) -> tuple[str, ...]:
    blind = [*audit.controls, *([audit.impersonal] if audit.impersonal else [])]
    none = [one.accuracy for one in blind if one.view == "none" and one.rm != "random"]
    strangers = [one.accuracy for one in blind if is_stranger(one)]
    found = audit.artefacts
    chance = found.chance if found else blind[0].chance
    return (
        f"{audit.users:,}" if audit.people else ABSENT,
        f"{audit.items:,}",
        percent(chance),
        percent(found.accuracy) if found else ABSENT,
        percent_interval(found.low, found.high) if found else ABSENT,
        percent(max(none)) if none else ABSENT,
        percent(max(strangers)) if strangers else ABSENT,
        _headroom(audit),
    )


def _headroom(audit: BenchmarkAudit) -> str:
    found = audit.headroom
    if found.attainable is not None:
        return _size(found.attainable)
    if found.impersonal_ceiling is not None:
        return f"above {percent(found.impersonal_ceiling.value)}"
    return "unknown"


def _size(estimate: Estimate) -> str:
    return f"{points(estimate.value).removeprefix('+')} ({percent_interval(estimate.low, estimate.high)})"


def verdict(audit: BenchmarkAudit) -> str:
    """What to make of an accuracy on this benchmark, in a sentence or two."""
    said = []
    found = audit.artefacts
    if not audit.people:
        said.append("Shows nothing personal: it has no people.")
    if found and found.told_of_others and found.accuracy - found.chance >= LARGE_SHORTCUT:
        by = f" ({found.telling[0].feature})" if found.telling else ""
        said.append(f"{points(found.accuracy - found.chance)} points come without reading the person{by}.")
    elif found and found.told_of_others:
        said.append("A weak artefact.")
    elif found and found.told:
        said.append("Form tells the choices of these people; of others it is open.")
    elif found and found.told_the_wrong_way and found.chance - found.accuracy >= LARGE_SHORTCUT:
        said.append("Responses tell the choice the wrong way round: whose texts they are may give it away.")
    elif found:
        said.append("No artefact seen.")
    if audit.people and audit.headroom.attainable is not None:
        personal = audit.headroom.attainable.low > 0
        said.append("There is something personal to find." if personal else "Nothing personal is shown to be there.")
    elif audit.people and audit.conflicts.twins > audit.conflicts.shared / 2:
        said.append("Twins: an accuracy above 50% reads the person.")
    elif audit.people and audit.headroom.impersonal_ceiling is not None:
        said.append("Taste and self-contradiction cannot be told apart: no repeats.")
    elif audit.people:
        said.append(
            "Shared and personal taste cannot be told apart: no overlap. Read gains over none and strangers only."
        )
    return " ".join(said)
