"""Whether a run that somebody sends can be believed: what can be recomputed is, and what cannot is said.

A run is a record that its maker wrote. These checks find runs that are unfinished, of another benchmark, or changed by
hand without care. They cannot prove that the model said what the record says: for that, run the model again.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from palate.data import LOADERS, load_named, text_key
from palate.evaluation import EVALUATION, ITEMS, RATINGS, RatedItem, Settings, Summary, rated_item
from palate.leaderboard._chain import chain_of, changes, seal_of
from palate.leaderboard._entries import model_kind
from palate.leaderboard._manifest import read_manifest
from palate.records import Ask, Benchmark, PalateError
from palate.rewards import make_reward_model
from palate.runs import PARTS, VIEWS, Run, as_benchmark, is_written, open_run
from palate.views import Missing, ViewBuilder

Verdict = Literal["passed", "failed", "not checked"]
_BLIND = ("random", "longest", "shortest")
"""Controls that read neither the view nor the order, so that anybody can rate the items again."""
_WITHOUT_MODEL = ("bm25", "recent", "random")
"""Retrievers that anybody can run again."""
_TELLING = 20
"""Characters from which a privileged text counts as found in a profile; shorter ones may stand there by chance."""


class Clause(msgspec.Struct, frozen=True):
    """One check and how it ended."""

    clause: str
    verdict: Verdict
    remark: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run that was checked."""

    run: str
    seal: str
    """A hash over the settings and every raw line; quote it where you hand the run over."""
    clauses: list[Clause]

    @property
    def failed(self) -> list[Clause]:
        """What speaks against the run."""
        return [clause for clause in self.clauses if clause.verdict == "failed"]


def check_submission(
    folder: str | Path,
    *,
    benchmark: str | None = None,
    seal: str | None = None,
    board: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> Checked:
    """Check a run of `palate eval` or `palate train`.

    `benchmark` says where the benchmark is, if not under the name that the run gives. `seal` is what the maker of the
    run published; `board` is the folder of a site that holds the run already.
    """
    run = open_run(Path(folder), EVALUATION)
    chain = chain_of(run)
    loaded = _load(run, benchmark, data_dir)
    summary = EVALUATION.summarise(run)
    clauses = [
        _named_by_settings(run),
        _complete(summary),
        _right_benchmark(run, loaded),
        _same_items(run, loaded),
        _recomputes(run, summary),
        _nothing_privileged(run, loaded),
        _same_views(run, loaded),
        _same_controls(run),
        _seal(seal_of(chain), seal),
        _recorded(run, board),
    ]
    return Checked(run=str(run.folder), seal=seal_of(chain), clauses=clauses)


def _load(run: Run[Settings], name: str | None, data_dir: str | Path | None) -> Benchmark | str:
    """The benchmark, or why it cannot be had. A run may come from a stranger: by itself it can name no file."""
    if name:
        return as_benchmark(name, data_dir)
    given = run.settings.benchmark.name
    if given not in LOADERS:
        return "palate knows no benchmark of the name that the run gives; say where it is with --benchmark"
    try:
        return load_named(given, data_dir=Path(data_dir) if data_dir else None)
    except PalateError as error:
        return f"{error} Say where it is with --benchmark"


def _named_by_settings(run: Run[Settings]) -> Clause:
    clause = "the settings are those that the folder is named after"
    expected = run.settings.folder_name
    if run.folder.resolve().name == expected:
        return Clause(clause, "passed")
    return Clause(clause, "failed", f"its settings.json belongs to a folder named {expected}")


def _complete(summary: Summary) -> Clause:
    clause = "every model has rated every item under every view"
    if summary.complete:
        return Clause(clause, "passed", f"{summary.items:,} items, {summary.users:,} users")
    return Clause(clause, "failed", "; ".join(summary.warnings[:2]))


def _right_benchmark(run: Run[Settings], benchmark: Benchmark | str) -> Clause:
    clause = "the benchmark is the one that you have"
    if isinstance(benchmark, str):
        return Clause(clause, "not checked", benchmark)
    if benchmark.content_hash == run.settings.content_hash:
        return Clause(
            clause, "passed", f"{benchmark.card.name} {benchmark.card.version}, hash {benchmark.content_hash[:12]}"
        )
    return Clause(
        clause,
        "failed",
        f"the run is of {run.settings.benchmark.name} {run.settings.benchmark.version} with hash "
        f"{run.settings.content_hash[:12]}; yours is {benchmark.card.version} with {benchmark.content_hash[:12]}",
    )


def _same_items(run: Run[Settings], benchmark: Benchmark | str) -> Clause:
    clause = "texts and labels of the items are the benchmark's"
    if isinstance(benchmark, str):
        return Clause(clause, "not checked", "the benchmark is not at hand")
    true = {item.id: rated_item(item, benchmark) for item in benchmark.comparisons}
    items = [msgspec.structs.replace(item, known=None) for item in run.read(ITEMS)]
    changed = [item.id for item in items if true.get(item.id) != item]
    if changed:
        return Clause(clause, "failed", f"{len(changed):,} of {len(items):,} differ, such as {_name(changed[0])}")
    whole = run.settings.limit is None and run.settings.split is None
    if whole and len(items) < len(true):
        return Clause(clause, "failed", f"{len(true) - len(items):,} items are missing, though no limit was set")
    return Clause(clause, "passed", f"{len(items):,} of {len(true):,} items")


_CLAIMED = ("n", "users", "accuracy", "low", "high", "macro", "ties", "unscored")


def _recomputes(run: Run[Settings], summary: Summary) -> Clause:
    clause = "the numbers that it claims follow from its raw ratings"
    file = run.folder / "summary.json"
    if not file.is_file():
        return Clause(clause, "not checked", "it claims none: there is no summary.json. palate report writes one")
    try:
        claimed = msgspec.json.decode(file.read_bytes(), type=Summary)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        return Clause(clause, "failed", f"summary.json cannot be read: {error}")
    found = {(result.rm, result.view): result for result in summary.results}
    for result in claimed.results:
        own = found.pop((result.rm, result.view), None)
        for name in _CLAIMED if own else ():
            said, is_so = getattr(result, name), getattr(own, name)
            if not _equal(said, is_so):
                where = f"{_name(result.rm)} seeing {result.view}"
                return Clause(clause, "failed", f"{where}: {name} is {is_so}, and summary.json says {said}")
        if own is None:
            return Clause(clause, "failed", f"nothing was rated by {_name(result.rm)} seeing {result.view}")
    if found:
        return Clause(clause, "failed", f"summary.json leaves out {len(found)} of its results")
    return Clause(clause, "passed", f"{len(claimed.results)} results")


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=0, abs_tol=1e-6)


def _nothing_privileged(run: Run[Settings], benchmark: Benchmark | str) -> Clause:
    clause = "no view but oracle shows what is privileged"
    oracle = {view.name for view in run.settings.views if view.shows("oracle")}
    secret: dict[str, list[str]] = {}
    if isinstance(benchmark, Benchmark):
        for item in benchmark.comparisons:
            texts = [item.privileged.narrative, *(aspect.aspect for aspect in item.privileged.aspects)]
            secret[item.id] = [text_key(text) for text in texts if text and len(text) >= _TELLING]
    parts = {line.key: line.text for line in run.read(PARTS)}
    for line in run.read(VIEWS):
        if line.view in oracle:
            continue
        shown = " ".join(text_key(parts[key]) for key in line.parts if key in parts) if secret.get(line.item) else ""
        if line.kinds.get("aspect") or any(text in shown for text in secret.get(line.item, ())):
            return Clause(clause, "failed", f"the view {line.view} of item {_name(line.item)} shows it")
    if isinstance(benchmark, str):
        return Clause(clause, "not checked", "no rubric is shown; for the texts, the benchmark is not at hand")
    return Clause(clause, "passed")


def _same_views(run: Run[Settings], benchmark: Benchmark | str) -> Clause:
    clause = "what it says was shown of each person is what these settings show"
    settings = run.settings
    if isinstance(benchmark, str) or benchmark.content_hash != settings.content_hash:
        return Clause(clause, "not checked", "the benchmark is not at hand")
    if settings.split is not None:
        return Clause(clause, "not checked", "runs of palate train show what their folds allow")
    if any(map(is_written, settings.views)):
        return Clause(clause, "not checked", "a language model wrote part of it")
    if settings.retriever not in _WITHOUT_MODEL:  # nor is a stranger's file ever run
        return Clause(clause, "not checked", f"the retriever is not one of {', '.join(_WITHOUT_MODEL)}")
    specs = [view for view in settings.views if view.pieces]
    parts = {line.key: line.text for line in run.read(PARTS)}
    lines = run.lines(VIEWS)
    ids = {item.id for item in run.read(ITEMS)}
    items = [item for item in benchmark.comparisons if item.id in ids]
    builder = ViewBuilder(benchmark, retriever=settings.retriever, budget=settings.budget, seed=settings.seed)
    for spec in specs:
        for draw in range(spec.draws):
            for item, view in zip(items, builder.build(spec, items, draw=draw), strict=True):
                line = lines.get((spec.name, item.id, draw))
                true = None if isinstance(view, Missing) else [part.text for part in view.parts]
                kept = None if line is None or line.missing is not None else [parts.get(key) for key in line.parts]
                if true != kept:
                    return Clause(clause, "failed", f"the view {spec.name} of item {_name(item.id)} is another")
    return Clause(clause, "passed", f"{len(lines):,} views")


def _same_controls(run: Run[Settings]) -> Clause:
    clause = "its controls rate as controls do"
    blind = [
        model
        for model in run.settings.models
        if model_kind(model) == "control" and model.identity.get("spec", "").split(":")[0] in _BLIND
    ]
    if not blind:
        return Clause(clause, "not checked", "the run has none of random, longest, shortest; ask for a run with them")
    items: list[RatedItem] = list(run.read(ITEMS))
    true: dict[tuple[str, str], tuple[float, ...]] = {}
    for model in blind:
        asks = [Ask(id=item.id, prompt=item.prompt, responses=item.responses) for item in items]
        for item, rating in zip(items, make_reward_model(model.identity["spec"]).rate(asks), strict=True):
            true[model.label, item.id] = tuple(rating.scores or ())
    compared = 0
    for line in run.read(RATINGS):
        scores = true.get((line.rm, line.item))
        if scores is None or line.rating.scores is None:
            continue
        compared += 1
        if tuple(line.rating.scores) != scores:
            return Clause(clause, "failed", f"{line.rm} rates item {_name(line.item)} otherwise: its line was edited")
    return Clause(clause, "passed", f"{compared:,} ratings of {', '.join(model.label for model in blind)} made again")


def _seal(found: str, published: str | None) -> Clause:
    clause = "its raw lines are those that were sealed"
    if published is None:
        return Clause(clause, "not checked", "give the seal that its maker published with --seal")
    if found == published.strip().lower():
        return Clause(clause, "passed")
    return Clause(clause, "failed", f"its seal is {found}")


def _recorded(run: Run[Settings], board: str | Path | None) -> Clause:
    clause = "its raw lines are those that the board recorded"
    if board is None:
        return Clause(clause, "not checked", "name the folder of a board that holds it with --board")
    if not (Path(board) / "manifest.jsonl").is_file():
        raise PalateError(f"{board} is not the folder of a board: it has no manifest.jsonl")
    events = [event for event in read_manifest(Path(board)) if event.run == run.folder.resolve().name]
    if not events:
        return Clause(clause, "not checked", "the board has no such run")
    changed = changes(run.folder, events[-1].chain, chain_of(run))
    if changed:
        return Clause(clause, "failed", "; ".join(changed))
    return Clause(clause, "passed", f"as of {events[-1].date}")


def _name(text: str) -> str:
    return repr(text[:80])
