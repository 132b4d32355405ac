"""A board as a folder of static files, for any web server or straight from a disk, without network.

index.html          the page; it loads everything else on demand
board.json          every table, for programs; board.csv, for spreadsheets
manifest.jsonl      every entry, removal and rescore, with date and reason
model-index/*.yaml  results for the card of each model
data/*.js           tables, models, items
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from palate import __version__
from palate.evaluation import EVALUATION, ITEMS, RatedItem, view_kind
from palate.leaderboard._about import ModelFacts, read_facts, require_known
from palate.leaderboard._board import (
    EVERYBODY,
    SMALLEST_GROUP,
    BenchmarkBoard,
    BoardTable,
    benchmark_board,
    board_findings,
    full_names,
)
from palate.leaderboard._chain import seal_of
from palate.leaderboard._entries import BoardRun, Entry, board_items, find_runs, items_digest, read_entries
from palate.leaderboard._exports import BoardSummary, board_csv, board_document, board_summary, model_index
from palate.leaderboard._items import CHUNK, outcomes, write_items, write_ratings, write_script, write_seen
from palate.leaderboard._manifest import Event, Standing, append_events, plan_events, read_manifest
from palate.records import Card, PalateError, without_folders
from palate.report import Document, count, page_asset, page_templates
from palate.runs import Progress, file_name, no_progress, open_run, write_whole
from palate.stats import Figure, PairedTest

_FOLDER = Path(__file__).parent
_POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""`file:` is what `'self'` means for a page that was opened from a disk; on a web server it allows nothing more."""


class Site(NamedTuple):
    """A board that was written."""

    summary: BoardSummary
    document: Document
    page: Path
    events: list[Event]
    """What was added to the manifest."""


def leaderboard(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    about: str | Path | None = None,
    reason: str = "",
    users: bool = True,
    title: str = "Leaderboard",
    seed: int = 0,
    progress: Progress = no_progress,
) -> Site:
    """Rank the models of many runs, and write the site.

    Without `users` it holds no item, no profile and no number of a single person.
    """
    folder = Path(out)
    events = read_manifest(folder)
    facts = read_facts(Path(about)) if about else {}
    folders, left_out = find_runs([Path(run) for run in runs])
    sets = _benchmarks(folders)
    with _drafts(folder) as data:
        read = _read_runs(folders, sets, data if users else None, progress)
        boards = [
            benchmark_board(
                rated.card,
                rated.hash,
                rated.items,
                [found.run for found in read if found.run.folder in rated.folders],
                facts,
                seed=seed,
                progress=progress,
            )
            for rated in sets
        ]
        if about:
            require_known(facts, {name for board in boards for name in board.names.values()}, Path(about))
        standings = {standing.entry: standing for board in boards for standing in _standings(board, facts)}
        today = datetime.now(UTC).date().isoformat()
        planned = plan_events(events, standings, date=today, reason=reason)
        findings = [finding for board in boards for finding in board_findings(board, facts)]
        summary = board_summary(title, today, boards, facts, findings, left_out)
        progress("writing the site", 0, 1)
        seen = {found.run.facts.run: found.seen for found in read}
        _write_data(data, boards, facts, summary, seen, users=users)
        _swap(data, folder / "data")
    added = append_events(folder, planned)
    write_script(folder / "data" / "manifest.js", "manifest", [_shown_event(event) for event in (*events, *added)])
    document = board_document(summary)
    _write_pages(folder, boards, summary, facts)
    return Site(summary, document, folder / "index.html", added)


class _Rated(NamedTuple):
    """A benchmark, and the runs that rated the same items of it."""

    card: Card
    hash: str
    items: list[RatedItem]
    folders: list[Path]


def _benchmarks(folders: Sequence[Path]) -> list[_Rated]:
    """The benchmarks of these runs. Refused where two versions of one would be mixed."""
    hashes: dict[str, dict[str, list[Path]]] = {}
    cards: dict[str, Card] = {}
    for folder in folders:
        settings = open_run(folder, EVALUATION, check=False).settings
        hashes.setdefault(settings.benchmark.name, {}).setdefault(settings.content_hash, []).append(folder)
        cards[settings.content_hash] = settings.benchmark
    faults = []
    for name, versions in hashes.items():
        if len(versions) > 1:
            faults += [f"{name} is there in {len(versions)} versions, with different contents:"]
            faults += [
                f"  - {cards[content].version}, hash {content[:12]}: {', '.join(run.name for run in some)}"
                for content, some in versions.items()
            ]
    if faults:
        raise PalateError(
            "accuracies on different contents cannot be ranked together. Build a board for each, or run the older ones "
            "again.\n" + "\n".join(faults)
        )
    found = []
    for versions in hashes.values():
        for content, some in versions.items():
            items = board_items(open_run(some[0], EVALUATION, check=False).read(ITEMS))
            found.append(_Rated(cards[content], content, items, some))
    return found


class _Read(NamedTuple):
    run: BoardRun
    seen: list[str]
    items: str
    """The digest of the items that it rated, and in words how many they are."""


def _read_runs(folders: Sequence[Path], sets: Sequence[_Rated], data: Path | None, progress: Progress) -> list[_Read]:
    """Read all runs, on all cores, and write what their models saw and said."""
    found: list[_Read] = []
    for read in _on_all_cores(folders, data):
        progress("reading the runs", len(found), len(folders))
        found.append(read)
    for rated in sets:
        _require_same_items(rated.card.name, [read for read in found if read.run.folder in rated.folders])
    return found


def _require_same_items(name: str, read: Sequence[_Read]) -> None:
    kinds: dict[str, list[BoardRun]] = {}
    for one in read:
        kinds.setdefault(one.items, []).append(one.run)
    if len(kinds) < 2:
        return
    lines = [f"runs of {name} rated different items, and models are ranked on the same ones:"]
    for items, runs in kinds.items():
        limit = "" if runs[0].facts.limit is None else f" (--limit {runs[0].facts.limit}, seed {runs[0].facts.seed})"
        lines.append(f"  - {items.partition(' ')[2]}{limit}: {', '.join(run.facts.run for run in runs)}")
    raise PalateError("\n".join([*lines, "Run some of them again with the same limit and seed, or leave them out."]))


def _on_all_cores(folders: Sequence[Path], data: Path | None) -> Iterator[_Read]:
    read = partial(_read_one, data=data)
    if len(folders) < _WORTH_PROCESSES:
        yield from map(read, folders)
        return
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        yield from pool.map(read, folders, chunksize=4)


_WORTH_PROCESSES = 40
"""Fewer runs than this are read before further processes have started."""


def _read_one(folder: Path, data: Path | None) -> _Read:
    run, ratings, items = read_entries(folder)
    rated = f"{items_digest(items)} {count(len(items), 'item')}"
    if data is None:
        return _Read(run, [], rated)
    write_ratings(data, run, ratings, items)
    return _Read(run, write_seen(data, open_run(folder, EVALUATION, check=False), items), rated)


@contextmanager
def _drafts(folder: Path) -> Iterator[Path]:
    """A folder beside the site's data, which takes its place when all is well, and is gone otherwise."""
    draft = folder / f".data-{os.getpid()}"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
    except OSError as error:
        raise PalateError(
            f"cannot write to {folder}: {error.strerror or error}. Choose another place with --output."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _swap(draft: Path, data: Path) -> None:
    """What an earlier build left goes, so that nobody who was erased from a run stays on the site."""
    shutil.rmtree(data, ignore_errors=True)
    draft.rename(data)


def _standings(board: BenchmarkBoard, facts: Mapping[str, ModelFacts]) -> Iterator[Standing]:
    for entry in board.entries.values():
        rows = {
            table.view: row.accuracy
            for table in board.tables.values()
            if table.by == EVERYBODY
            for row in table.rows
            if row.entry == entry.id
        }
        said = facts.get(board.names[entry.id])
        run = board.runs[entry.id][0]
        yield Standing(
            entry=entry.id,
            model=board.names[entry.id],
            benchmark=board.card.name,
            benchmark_hash=board.hash,
            folder=run.folder,
            accuracies={view: None if figure is None else figure.value for view, figure in rows.items()},
            variants=None if said is None else said.variants,
            chain=run.chain,
        )


def _shown_event(event: Event) -> dict[str, object]:
    return {
        "date": event.date,
        "action": event.action,
        "model": event.model,
        "benchmark": event.benchmark,
        "run": event.run,
        "variants": event.variants,
        "reason": event.reason,
        "seal": seal_of(event.chain),
    }


def _write_data(
    data: Path,
    boards: Sequence[BenchmarkBoard],
    facts: Mapping[str, ModelFacts],
    summary: BoardSummary,
    seen: Mapping[str, list[str]],
    *,
    users: bool,
) -> None:
    write_script(data / "board.js", "board", _board_value(boards, facts, summary, users=users))
    for number, board in enumerate(boards):
        order = {entry: place for place, entry in enumerate(board.entries)}
        parts = list(dict.fromkeys((by, value) for _, by, value in board.tables))
        for place, view in enumerate(board.views):
            for part, (by, value) in enumerate(parts):
                key = f"table-{number}-{place}-{part}"
                write_script(data / f"{key}.js", key, _table_value(board.tables[view.name, by, value], order))
            best = [
                {"part": part, "models": _leaders(board.tables[view.name, by, value], board, order)}
                for part, (by, value) in enumerate(parts)
            ]
            write_script(data / f"best-{number}-{place}.js", f"best-{number}-{place}", best)
        for entry in board.entries.values():
            key = f"model-{entry.id}"
            write_script(data / f"{key}.js", key, _model_value(board, entry, seen, users=users))
        if users:
            write_items(data, number, board.items)
            key = f"people-{number}"
            write_script(data / f"{key}.js", key, board.clusters.tolist())


def _leaders(table: BoardTable, board: BenchmarkBoard, order: Mapping[str, int]) -> list[int]:
    first = [row for row in table.rows if row.rank is not None and row.rank.rank == 1]
    return [order[row.entry] for row in first]


def _board_value(
    boards: Sequence[BenchmarkBoard], facts: Mapping[str, ModelFacts], summary: BoardSummary, *, users: bool
) -> dict[str, object]:
    return {
        "title": summary.title,
        "date": summary.date,
        "palate": __version__,
        "users": users,
        "chunk": CHUNK,
        "smallest": SMALLEST_GROUP,
        "findings": [{"severity": finding.severity, "text": finding.sentence} for finding in summary.findings],
        "left_out": summary.left_out,
        "benchmarks": [
            {
                "name": board.card.name,
                "title": board.card.title,
                "version": board.card.version,
                "licence": board.card.licence,
                "source": board.card.source,
                "hash": board.hash,
                "items": len(board.items),
                "users": board.users,
                "resampled": board.resampled,
                "view": [view.name for view in board.views].index(board.default_view),
                "views": [{"name": view.name, "kind": view_kind(view.name, view.of)} for view in board.views],
                "parts": [
                    {"by": by, "value": value, "users": board.tables[board.views[0].name, by, value].users}
                    for by, value in dict.fromkeys((by, value) for _, by, value in board.tables)
                ],
                "models": [_listed(board, entry, facts.get(board.names[entry.id])) for entry in board.entries.values()],
            }
            for board in boards
        ],
    }


def _listed(board: BenchmarkBoard, entry: Entry, said: ModelFacts | None) -> dict[str, object]:
    said = said or ModelFacts(name=board.names[entry.id])
    return {
        "id": entry.id,
        "name": board.names[entry.id],
        "kind": entry.kind,
        "control": entry.is_control,
        "size": "any" if entry.is_control else said.size,
        "parameters": said.parameters,
        "licence": "any" if entry.is_control else said.licence or "not given",
        "variants": said.variants,
        "link": said.link,
        "file": f"model-index/{index_name(board, entry)}",
    }


def index_name(board: BenchmarkBoard, entry: Entry) -> str:
    """The file of a model's results for its card."""
    return f"{file_name(board.names[entry.id])}-{entry.id}.yaml"


def _table_value(table: BoardTable, order: Mapping[str, int]) -> dict[str, object]:
    return {
        "users": table.users,
        "leader_stays": table.leader_stays,
        "agreement": table.agreement,
        "rows": [
            [
                order[row.entry],
                *_figure(row.accuracy),
                row.n,
                row.users,
                *((row.rank.rank, row.rank.better, row.rank.first, row.rank.last) if row.rank else [None] * 4),
                *_test(row.over_none),
                *_test(row.over_stranger),
            ]
            for row in table.rows
        ],
    }


def _figure(figure: Figure | None) -> list[float | None]:
    return [None] * 3 if figure is None else [_short(figure.value), _short(figure.low), _short(figure.high)]


def _test(test: PairedTest | None) -> list[float | None]:
    return (
        [None] * 4 if test is None else [_short(test.difference), _short(test.low), _short(test.high), _short(test.q)]
    )


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _model_value(
    board: BenchmarkBoard, entry: Entry, seen: Mapping[str, list[str]], *, users: bool
) -> dict[str, object]:
    runs = board.runs[entry.id]
    return {
        "identity": {name: without_folders(value) for name, value in entry.identity.items()},
        "cost": entry.cost,
        "views": {
            view: {
                "unscored": result.unscored,
                "calibration": result.calibration,
                "gaps": [
                    {
                        name: _short(value) if isinstance(value, float) else value
                        for name, value in msgspec.structs.asdict(gap).items()
                    }
                    for gap in board.gaps[entry.id, view]
                ],
                "outcomes": outcomes(result.credits) if users else "",
            }
            for view, result in entry.results.items()
        },
        "runs": [
            {
                "facts": run.facts,
                "seal": seal_of(run.chain),
                "chain": run.chain,
                "said": f"said-{entry.id}-{run.facts.hash}",
                "seen": seen.get(run.facts.run, []),
                "views": {full: own for own, full in full_names(run).items()},
            }
            for run in runs
        ],
    }


def _write_pages(
    folder: Path, boards: Sequence[BenchmarkBoard], summary: BoardSummary, facts: Mapping[str, ModelFacts]
) -> None:
    first = boards[0]
    page = (
        page_templates(_FOLDER)
        .get_template("board.html.j2")
        .render(
            policy=_POLICY,
            summary=summary,
            first_table=f"table-0-{[view.name for view in first.views].index(first.default_view)}-0",
        )
    )
    files = {
        "index.html": page,
        "page.css": page_asset("page.css"),
        "theme.js": page_asset("theme.js"),
        "board.css": (_FOLDER / "board.css").read_text(encoding="utf-8"),
        "board.js": (_FOLDER / "board.js").read_text(encoding="utf-8"),
        "board.csv": board_csv(summary),
        "board.json": msgspec.json.format(msgspec.json.encode(summary), indent=1).decode() + "\n",
    }
    for name, content in files.items():
        write_whole(folder / name, content.encode("utf-8", "replace"))
    indices = folder / "model-index"
    shutil.rmtree(indices, ignore_errors=True)
    indices.mkdir()
    for board in boards:
        for entry in board.entries.values():
            if not entry.is_control:
                (indices / index_name(board, entry)).write_bytes(model_index(board, entry).encode("utf-8", "replace"))
