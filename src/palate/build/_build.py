"""A benchmark from raw histories, stage by stage. Run it again to resume: what is written is never made twice."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import msgspec

from palate.build._assemble import Assembled, assemble
from palate.build._card import plan_card, with_gate, write_attribution, write_card
from palate.build._experiment import BUILD, BuildSummary, summary_of
from palate.build._gate import GateResult, run_gate
from palate.build._generate import Writers, generate, needed_parts, needed_prompts, stage_sources
from palate.build._plan import LampQaSource, Plan, read_plan
from palate.build._prompts import read_prompts
from palate.build._records import GATE, VALIDATION, BuildSettings, GateLine
from palate.build._select import Names, is_selected, open_source, select
from palate.build._split import part_of, split_items
from palate.build._validation import read_validation, write_items
from palate.data import Pseudonyms, load_benchmark, pseudonym_key, write_benchmark
from palate.records import PalateError
from palate.runs import Appender, Progress, Run, begin_run, no_progress

FEWEST_USERS = 2
LOCK = "select.lock"
"""Keeps two processes from selecting at once."""


def build(
    file: Path,
    *,
    to: Path | None = None,
    out: Path = Path("runs"),
    items: Path | None = None,
    answers: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress = no_progress,
) -> tuple[BuildSummary, Path]:
    """Build what a plan says; the summary, and the folder of the finished benchmark.

    With `items`, they are written to that file for people to validate; with `answers`, an export of `palate collect`,
    what people said is kept and stands in the card.
    """
    plan = read_plan(file)
    run, writers = prepare(file, plan, out=out, data_dir=data_dir, progress=progress)
    if plan.asks_models:
        generate(run, writers, file.parent, progress)
    assembled = assemble(run)
    if len(assembled.benchmark.users) < FEWEST_USERS:
        last = next((one for one in reversed(assembled.yields) if one.why), assembled.yields[-1])
        reasons = "; ".join(f"{reason}: {number:,}" for reason, number in last.why.items())
        raise PalateError(
            f"{len(assembled.benchmark.comparisons):,} items of {len(assembled.benchmark.users):,} users are left, and "
            f"a benchmark needs {FEWEST_USERS} users. Left out in the stage {last.stage}: {reasons or 'nothing'}. "
            f"What was made is in {run.folder}."
        )
    gate = _gate(run, assembled, progress)
    if items is not None:
        write_items(assembled.benchmark, items)
    if answers is not None:
        line = read_validation(answers, assembled.benchmark)
        with closing(Appender(run.folder / VALIDATION.name)) as ledger:
            ledger.append([line])
    folder = to or Path(plan.name)
    _write(run, assembled, gate, folder)
    return summary_of(run, assembled), folder


def prepare(
    file: Path, plan: Plan, *, out: Path, data_dir: Path | None, progress: Progress
) -> tuple[Run[BuildSettings], Writers]:
    """The folder of the build, with its questions selected, and the language models that the rest asks."""
    writers = Writers(plan)
    prompts = read_prompts(plan, file.parent)
    if isinstance(plan.source, LampQaSource):
        benchmark = load_benchmark(plan.source.benchmark, data_dir=data_dir)
        print_, card = benchmark.content_hash, plan_card(plan, benchmark.card.licence, benchmark.card.source)
    else:
        source = open_source(plan, file.parent)
        print_, card = source.fingerprint, plan_card(plan, source.licence, source.where)
    settings = BuildSettings(
        benchmark=card,
        content_hash=print_,
        seed=plan.seed,
        plan=_without_money(plan),
        models={part: writers.fingerprint(part) for part in needed_parts(plan)},
        prompts={name: hashlib.sha256(prompts[name].encode()).hexdigest() for name in needed_prompts(plan)},
        stages=stage_sources(plan, file.parent),
    )
    run = begin_run(out, BUILD, settings)
    if not is_selected(run.folder):
        key = pseudonym_key() if plan.pseudonyms else None
        names = Names(Pseudonyms(key) if key else None)
        with closing(Appender(run.folder / LOCK)):
            select(run.folder, plan, file.parent, names, data_dir=data_dir, progress=progress)
    return run, writers


def _without_money(plan: Plan) -> Plan:
    """The plan without what may change between calls: prices, caps and the names of keys."""

    def kept(spec: str) -> str:
        pieces = spec.split(",")
        return ",".join(one for one in pieces if one.partition("=")[0].strip() not in ("prices", "most_spent", "key"))

    return msgspec.structs.replace(plan, models={part: kept(spec) for part, spec in plan.models.items()})


def _gate(run: Run[BuildSettings], assembled: Assembled, progress: Progress) -> GateResult:
    """What the gate says of exactly this content, measured once."""
    benchmark = assembled.benchmark
    known = run.lines(GATE)
    if benchmark.content_hash in known:
        return known[benchmark.content_hash].result
    progress("measuring the release gate", 0, 1)
    result = run_gate(benchmark, run.settings.plan.gate, seed=run.settings.seed, progress=progress)
    with run.writing() as writer:
        writer.add(GATE, [GateLine(content_hash=benchmark.content_hash, result=result)])
    return result


def _write(run: Run[BuildSettings], assembled: Assembled, gate: GateResult, folder: Path) -> None:
    """The finished folder, or one below it for each part of the split."""
    plan = run.settings.plan
    whole = with_gate(assembled.benchmark, gate, assembled.yields)
    split = split_items(whole.comparisons, plan.split, plan.seed)
    empty = [name for name, items in split.items() if not items]
    if empty:
        raise PalateError(f"the part {empty[0]!r} of the split is empty: {len(whole.comparisons):,} items are too few")
    parts = {name: part_of(whole, items, name) for name, items in split.items()}
    _refuse_other(folder, parts)
    summary = summary_of(run, assembled)
    for name, part in parts.items():
        place = folder / name if name else folder
        write_benchmark(part, place)
    write_attribution(folder, run.settings, whole.comparisons, assembled.items)
    validated = [line for line in run.read(VALIDATION) if line.content_hash == whole.content_hash]
    write_card(
        folder,
        run.settings,
        parts,
        gate,
        assembled.yields,
        summary.spent,
        validated[-1].sentences if validated else (),
    )


def _refuse_other(folder: Path, parts: Collection[str]) -> None:
    """A folder of parts must not hold something else; one of a single benchmark is checked when it is written."""
    if "" in parts or not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        return
    other = [entry.name for entry in folder.iterdir() if entry.name not in (*parts, "CARD.md", "ATTRIBUTION.md")]
    if other:
        raise PalateError(f"{folder} holds other things, such as {other[0]}; name another folder with --to")
