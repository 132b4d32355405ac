"""Is this benchmark able to see personalisation at all?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from palate.audit._amounts import measure_amounts, measure_fields, measure_power
from palate.audit._artefacts import PERMUTATIONS, Artefacts, judge_sheet, read_sheet
from palate.audit._benchmark_findings import findings
from palate.audit._benchmark_results import BenchmarkAudit
from palate.audit._claims import Impersonal, aligned, check_claimed, judge_number, judge_run
from palate.audit._conflicts import find_conflicts
from palate.audit._controls import Measured, luck, luck_of_strangers, measure_controls, measure_impersonal, reaches
from palate.audit._habits import measure_lengths, measure_positions
from palate.audit._headroom import measure_headroom
from palate.audit._leaks import find_leaks
from palate.audit._values import Coverage, measure_values
from palate.data import check_benchmark, is_nobody, load_benchmark
from palate.evaluation import SMALLEST_GROUP, Ratings
from palate.records import Benchmark, PalateError
from palate.runs import Progress
from palate.stats import Floats, false_discovery


def audit_benchmark(
    benchmark: str | Path,
    *,
    least: int = SMALLEST_GROUP,
    impersonal: bool | None = None,
    claimed: float | None = None,
    run: str | Path | None = None,
    values: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> BenchmarkAudit:
    """Say how far one gets without knowing the user, how often users disagree, and what would mislead.

    The impersonal model is trained where it can be; with `impersonal` true it must be, with false it is not.
    `claimed` is an accuracy that somebody published of this benchmark, `run` the folder of an evaluation on it: the
    audit then says how much of the gain over guessing survives.
    With `values`, an encoder says which of Schwartz's ten values the prompts touch.
    With `runs`, the ratings of the controls are kept in that folder, and calling it again resumes;
    without, they are thrown away.
    """
    check_least(least)
    if claimed is not None and run is not None:
        raise PalateError("give either a claimed accuracy or a run, not both")
    if claimed is not None:
        check_claimed(claimed)
    folder = Path(data_dir) if data_dir else None
    loaded = load_benchmark(benchmark, data_dir=folder)
    _refuse_unusable(loaded)
    faults = [str(fault) for fault in check_benchmark(benchmark, data_dir=folder)]
    if runs is not None:
        measured = _measure(loaded, Path(runs), seed, progress, impersonal=impersonal)
    else:
        with TemporaryDirectory(prefix="palate-audit-") as place:
            measured = _measure(loaded, Path(place), seed, progress, impersonal=impersonal)
    prompts = (item.prompt for item in loaded.comparisons)
    coverage = measure_values(prompts, seed=seed, progress=progress) if values else None
    return _audit(
        loaded, measured, faults, coverage, least=least, claimed=claimed, run=run, seed=seed, progress=progress
    )


def check_least(least: int) -> None:
    """Refuse a number of users that would let a group be one person."""
    if least < 2:
        raise PalateError(
            f"the least number of users in a group is 2 or more, so that none is one person; {least} was given"
        )


def _refuse_unusable(benchmark: Benchmark) -> None:
    name = benchmark.card.name
    if not benchmark.comparisons:
        raise PalateError(f"{name} has no comparisons, only {len(benchmark.completions)} completions; nothing to audit")
    if len({item.user_id for item in benchmark.comparisons}) < 2:
        raise PalateError(
            f"{name} has comparisons of one user only: nothing tells what is personal from what everybody likes. "
            "Add comparisons of other users."
        )


class _Models(msgspec.Struct, frozen=True):
    """The models that do not know the user."""

    controls: list[Measured]
    trained: Measured | None
    untrained: str | None
    """Why none was trained."""


def _measure(
    benchmark: Benchmark, runs: Path, seed: int, progress: Progress | None, *, impersonal: bool | None
) -> _Models:
    controls = measure_controls(benchmark, runs, seed, progress)
    if impersonal is False:
        return _Models(controls, None, "it was not asked for")
    try:
        return _Models(controls, measure_impersonal(benchmark, runs, seed, progress), None)
    except PalateError as error:
        if impersonal:
            raise
        return _Models(controls, None, str(error))


def _audit(
    benchmark: Benchmark,
    models: _Models,
    faults: list[str],
    values: Coverage | None,
    *,
    least: int,
    claimed: float | None,
    run: str | Path | None,
    seed: int,
    progress: Progress | None,
) -> BenchmarkAudit:
    controls, trained = models.controls, models.trained
    ratings = controls[0].ratings
    reached = reaches([*controls, *([trained] if trained else [])], seed)
    artefacts, told, missing = _artefacts(benchmark, ratings, seed, progress)
    blind = [one for one in (*controls, *([trained] if trained else [])) if one.view == "none" and one.rm != "random"]
    credits = {one.rm: _on(one, ratings) for one in blind}
    impersonal = Impersonal(ratings, credits | ({"artefacts": told} if told is not None else {}))
    claims = [judge_number(claimed, impersonal, seed)] if claimed is not None else []
    claims += judge_run(run, benchmark, impersonal, seed) if run is not None else []
    if progress:
        progress("looking for conflicts", 0, len(ratings.items))
    audit = BenchmarkAudit(
        benchmark=benchmark.card.name,
        benchmark_title=benchmark.card.title,
        benchmark_hash=benchmark.content_hash,
        licence=benchmark.card.licence,
        seed=seed,
        least=least,
        items=len(ratings.items),
        users=len({item.user_id for item in ratings.items}),
        people=not is_nobody(item.user_id for item in benchmark.comparisons),
        findings=[],
        controls=[one for one in reached if trained is None or one.rm != trained.rm],
        impersonal=next((one for one in reached if trained is not None and one.rm == trained.rm), None),
        without_impersonal=models.untrained,
        artefacts=artefacts,
        without_artefacts=missing,
        claims=claims,
        headroom=measure_headroom(ratings, [(rm, "none", own) for rm, own in impersonal.credits.items()], seed),
        values=values,
        luck=luck(ratings, seed),
        luck_unshared=luck_of_strangers(ratings),
        conflicts=find_conflicts(ratings, seed),
        lengths=measure_lengths(ratings, seed),
        positions=measure_positions(benchmark, ratings, seed),
        fields=measure_fields(benchmark, least),
        leaks=find_leaks(benchmark, progress),
        faults=faults,
        amounts=measure_amounts(benchmark),
        power=measure_power(ratings, controls),
    )
    audit = _with_false_discovery(audit)
    return msgspec.structs.replace(audit, findings=findings(audit))


def _artefacts(
    benchmark: Benchmark, ratings: Ratings, seed: int, progress: Progress | None
) -> tuple[Artefacts | None, Floats | None, str | None]:
    """The classifier, and what it earned on each item; or else the reason why it is missing."""
    try:
        sheet = read_sheet(benchmark.comparisons, seed=seed, progress=progress)
        found, credits = judge_sheet(sheet, [item.preferred for item in sheet.items], seed, PERMUTATIONS, progress)
    except PalateError as error:
        return None, None, str(error)
    by_id = {item.id: float(credit) for item, credit in zip(sheet.items, credits, strict=True)}
    return found, aligned([item.id for item in ratings.items], by_id), None


def _on(one: Measured, ratings: Ratings) -> Floats:
    """What a model earned, in the order of these ratings."""
    by_id = {item.id: float(credit) for item, credit in zip(one.ratings.items, one.credits, strict=True)}
    return aligned([item.id for item in ratings.items], by_id)


def _with_false_discovery(audit: BenchmarkAudit) -> BenchmarkAudit:
    """The q of everything that could tell people apart, as one family."""
    replace = msgspec.structs.replace
    conflicts, lengths, positions = audit.conflicts, audit.lengths, audit.positions
    tested = [conflicts.self_agreement, lengths.habit, positions.habit if positions else None]
    p_values = [one.p for one in tested if one] + [
        positions.over_time_p for _ in "p" if positions and positions.over_time
    ]
    q_values = iter(false_discovery(p_values))
    own, length, position = (replace(one, q=next(q_values)) if one else None for one in tested)
    if positions:
        positions = replace(positions, habit=position, over_time_q=next(q_values, 1.0))
    return replace(
        audit,
        conflicts=replace(conflicts, self_agreement=own),
        lengths=replace(lengths, habit=length),
        positions=positions,
    )
