"""From runs to a board: what may stand beside what, and every table of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation import Mask, RatedItem, Ratings, groupings, shown_groups, view_kind
from palate.leaderboard._about import ModelFacts
from palate.leaderboard._entries import BoardRun, Entry
from palate.leaderboard._ranks import FEWEST_USERS, Rank, Ranking, rank_models
from palate.records import Card, PalateError, without_folders
from palate.report import Finding, count, percent
from palate.runs import Progress
from palate.stats import (
    GAIN,
    SHARE,
    Figure,
    Floats,
    PairedTest,
    Resamples,
    Units,
    against_rest,
    false_discovery,
    figures,
    paired_tests,
)
from palate.views import ViewSpec

SMALLEST_GROUP = 10
"""Groups of fewer users are never shown: a number about few people is a number about each of them."""
EVERYBODY = "everybody"


class Part(NamedTuple):
    """Part of the items: a domain, or a group of people."""

    by: str
    """`everybody`, `category`, `difficulty` or `demographics.FIELD`."""
    value: str
    members: Mask
    users: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one table."""

    entry: str
    accuracy: Figure | None
    """Absent where fewer than ten users have a score."""
    n: int
    users: int
    rank: Rank | None
    over_none: PairedTest | None = None
    over_stranger: PairedTest | None = None


class BoardTable(msgspec.Struct, frozen=True, kw_only=True):
    """The models under one view, on part of the items."""

    view: str
    by: str
    value: str
    users: int
    rows: list[Row]
    """The best first."""
    leader_stays: float | None
    agreement: float | None


class GroupGap(msgspec.Struct, frozen=True, kw_only=True):
    """How a model serves one group, less how it serves everybody else. q is held over the groups of model and view."""

    by: str
    value: str
    users: int
    accuracy: float
    difference: float
    low: float
    high: float
    q: float
    median: float
    """What the middle one of the models gets there."""


class BenchmarkBoard(msgspec.Struct, frozen=True, kw_only=True):
    """All models on one benchmark."""

    card: Card
    hash: str
    items: Sequence[RatedItem]
    clusters: NDArray[np.intp]
    resampled: str
    entries: dict[str, Entry]
    names: dict[str, str]
    """What the board calls each entry: its label, with its run where two models have the same."""
    runs: dict[str, list[BoardRun]]
    """By entry, the runs that it comes from."""
    views: list[ViewSpec]
    tables: dict[tuple[str, str, str], BoardTable]
    """By view, field and value."""
    gaps: dict[tuple[str, str], list[GroupGap]]
    """By entry and view."""

    @property
    def users(self) -> int:
        """How many people judged the items."""
        return len({item.user_id for item in self.items})

    @property
    def default_view(self) -> str:
        """The profile that most models were shown; of several, the first."""
        rows = {view: len(table.rows) for (view, by, _), table in self.tables.items() if by == EVERYBODY}
        profiles = [view.name for view in self.views if view.is_profile] or list(rows)
        return max(profiles, key=lambda view: rows[view])


def benchmark_board(
    card: Card,
    content_hash: str,
    items: Sequence[RatedItem],
    runs: Sequence[BoardRun],
    facts: Mapping[str, ModelFacts],
    *,
    seed: int = 0,
    progress: Progress,
) -> BenchmarkBoard:
    """Rank all models of these runs, which rated the same items."""
    views = {view.name: view for run in runs for view in map(with_full_name, run.views)}
    entries, sources = _merge(runs)
    names = _names(entries, sources)
    variants = {entry: facts[name].variants or 1 for entry, name in names.items() if name in facts}
    base = Ratings(items, {})
    base.credits = {
        (entry.id, view): result.credits for entry in entries.values() for view, result in entry.results.items()
    }
    empty = {view: mask for run in runs for view, mask in _empty(run).items()}
    parts = _parts(base)
    resamples = Resamples(base.n_clusters, seed)
    gains = _gains(base, entries, views, empty, resamples)
    tables: dict[tuple[str, str, str], BoardTable] = {}
    gaps: dict[tuple[str, str], list[GroupGap]] = {}
    ordered = sorted(views.values(), key=lambda view: _VIEW_ORDER.index(view_kind(view.name, view.of)))
    for place, view in enumerate(ordered):
        own = [entry for entry in entries.values() if view.name in entry.results]
        values = np.stack([entry.results[view.name].credits for entry in own])
        for number, part in enumerate(parts):
            progress(f"ranking on {card.name}, {view.name}", place * len(parts) + number, len(ordered) * len(parts))
            tables[view.name, part.by, part.value] = _table(
                base, own, values, view.name, part, variants, gains if part.by == EVERYBODY else {}, resamples
            )
        for entry, found in zip(own, _group_gaps(base, values, parts[1:]), strict=True):
            gaps[entry.id, view.name] = found
    return BenchmarkBoard(
        card=card,
        hash=content_hash,
        items=items,
        clusters=base.clusters,
        resampled="users and items" if base.units else "users",
        entries=entries,
        names=names,
        runs=sources,
        views=ordered,
        tables=tables,
        gaps=gaps,
    )


_VIEW_ORDER = ("profile", "none", "stranger", "oracle")


def with_full_name(view: ViewSpec) -> ViewSpec:
    """A view of somebody else, named after what is taken from them: `swapped` means another thing in each run."""
    if view.whose == "own":
        return view
    return msgspec.structs.replace(view, name=f"{view.whose}:{view.of}")


def full_names(run: BoardRun) -> dict[str, str]:
    """By a run's own name of each view, the name that boards use."""
    return {view.name: with_full_name(view).name for view in run.views}


def _empty(run: BoardRun) -> dict[str, Mask]:
    names = full_names(run)
    return {names[view]: mask for view, mask in run.empty.items()}


def _merge(runs: Sequence[BoardRun]) -> tuple[dict[str, Entry], dict[str, list[BoardRun]]]:
    """Every model once. What two runs say alike is one; what they say differently is refused."""
    entries: dict[str, Entry] = {}
    sources: dict[str, list[BoardRun]] = {}
    for run in runs:
        names = full_names(run)
        for found in run.entries:
            entry = msgspec.structs.replace(
                found, results={names[view]: result for view, result in found.results.items()}
            )
            before = entries.get(entry.id)
            if before is None:
                entries[entry.id], sources[entry.id] = entry, [run]
                continue
            for view in before.results.keys() & entry.results.keys():
                if not np.array_equal(before.results[view].credits, entry.results[view].credits, equal_nan=True):
                    raise PalateError(_two_runs(entry.label, view, sources[entry.id][0], run))
            merged = {**entry.results, **before.results}
            entries[entry.id] = msgspec.structs.replace(before, results=merged, cost=before.cost or entry.cost)
            sources[entry.id].append(run)
    return entries, sources


def _two_runs(label: str, view: str, one: BoardRun, other: BoardRun) -> str:
    settings = ("palate", "seed", "retriever", "retriever_fingerprint", "writer", "budget", "limit", "split")
    differing = [
        f"{name} {getattr(one.facts, name)!r} and {getattr(other.facts, name)!r}"
        for name in settings
        if getattr(one.facts, name) != getattr(other.facts, name)
    ]
    because = f" Their settings differ: {'; '.join(differing)}." if differing else ""
    return (
        f"{label} seeing {view} is in two runs that rate it differently: {one.folder} and {other.folder}.{because} A "
        "board shows one run of a model, since the better of two is better by luck. Leave one of them out."
    )


def _names(entries: Mapping[str, Entry], sources: Mapping[str, list[BoardRun]]) -> dict[str, str]:
    """The label of a model; where several have the same, how it was called, or else its run. Never a path."""
    labels = [without_folders(entry.label) for entry in entries.values()]
    specs = [without_folders(entry.identity.get("spec", "")) for entry in entries.values()]
    names = {}
    for entry, label, spec in zip(entries.values(), labels, specs, strict=True):
        run = sources[entry.id][0].facts.run
        called = [(label, labels), (spec, specs)] if label == entry.label else [(spec, specs), (label, labels)]
        alone = [name for name, among in called if name and among.count(name) == 1]
        names[entry.id] = alone[0] if alone else f"{label} ({run}, {entry.id[:4]})"
    return names


def _parts(ratings: Ratings) -> list[Part]:
    """Everybody, then every domain and group of at least ten users."""
    everybody = np.ones(len(ratings.items), dtype=bool)
    parts = [Part(EVERYBODY, "", everybody, ratings.count_users(everybody))]
    for grouping in groupings(ratings):
        if grouping.is_nearly_id:
            continue
        shown = shown_groups(ratings, grouping, SMALLEST_GROUP)
        if len(shown.values) > 1:
            for code, value in enumerate(shown.values):
                members = shown.codes == code
                parts.append(Part(shown.by, value, members, ratings.count_users(members)))
    return parts


def _table(
    ratings: Ratings,
    entries: Sequence[Entry],
    values: Floats,
    view: str,
    part: Part,
    variants: Mapping[str, int],
    gains: Mapping[tuple[str, str], tuple[PairedTest | None, PairedTest | None]],
    resamples: Resamples,
) -> BoardTable:
    inside = values[:, part.members]
    users = ratings.users[part.members]
    has = [np.unique(users[~np.isnan(row)]).size for row in inside]
    ranked = [place for place, served in enumerate(has) if served >= SMALLEST_GROUP]
    nowhere = np.where(part.members, 0.0, np.nan)
    accuracies = figures([(values[place] + nowhere, SHARE) for place in ranked], ratings.clusters, resamples)
    tried = [variants.get(entries[place].id, 1) for place in ranked]
    units = None if ratings.units is None else _units_where(ratings.units, part.members)
    ranking = (
        rank_models(inside[ranked], ratings.clusters[part.members], units, tried, resamples.seed)
        if ranked
        else Ranking(ranks=[], users=0, leader_stays=None, agreement=None)
    )
    standing = dict(zip(ranked, zip(accuracies, ranking.ranks, strict=True), strict=True))
    rows = [
        Row(
            entry=entry.id,
            accuracy=standing[place][0] if place in standing else None,
            n=int((~np.isnan(inside[place])).sum()),
            users=has[place],
            rank=standing[place][1] if place in standing else None,
            over_none=gains.get((entry.id, view), (None, None))[0],
            over_stranger=gains.get((entry.id, view), (None, None))[1],
        )
        for place, entry in enumerate(entries)
    ]
    rows.sort(key=lambda row: -1.0 if row.accuracy is None else -row.accuracy.value + 0.0)
    rows.sort(key=lambda row: row.accuracy is None)
    return BoardTable(
        view=view,
        by=part.by,
        value=part.value,
        users=part.users,
        rows=rows,
        leader_stays=ranking.leader_stays,
        agreement=ranking.agreement,
    )


def _units_where(units: Units, members: Mask) -> Units:
    """The units of part of the items."""
    codes = np.unique(units.codes[members], return_inverse=True)[1]
    cells, inverse = np.unique(units.cells[members], return_inverse=True)
    unit_of_cell = np.zeros(len(cells), dtype=np.intp)
    unit_of_cell[inverse] = codes
    return Units(codes, inverse, np.bincount(unit_of_cell))


def _gains(
    ratings: Ratings,
    entries: Mapping[str, Entry],
    views: Mapping[str, ViewSpec],
    empty: Mapping[str, Mask],
    resamples: Resamples,
) -> dict[tuple[str, str], tuple[PairedTest | None, PairedTest | None]]:
    """By entry and view: over no profile, and over a stranger's. q is held over all gains on the benchmark."""
    asked: list[tuple[str, str, bool]] = []
    columns: list[tuple[Floats, tuple[float, float]]] = []
    for entry in entries.values():
        for name in entry.results:
            view = views[name]
            if not view.is_profile:
                continue
            strangers = [other for other in views.values() if other.of == name and other.name in entry.results]
            strangers.sort(key=lambda other: other.whose == "twin")
            for over, is_stranger in (("none", False), (strangers[0].name if strangers else "", True)):
                if over in entry.results:
                    gain = entry.results[name].credits - entry.results[over].credits
                    columns.append((np.where(empty.get(name, False), np.nan, gain), GAIN))
                    asked.append((entry.id, name, is_stranger))
    names = np.array([item.user_id for item in ratings.items])
    tests = paired_tests(columns, ratings.clusters, names, resamples)
    found: dict[tuple[str, str], tuple[PairedTest | None, PairedTest | None]] = {}
    for (entry_id, name, is_stranger), test in zip(asked, tests, strict=True):
        over_none, over_stranger = found.get((entry_id, name), (None, None))
        found[entry_id, name] = (over_none, test) if is_stranger else (test, over_stranger)
    return found


def _group_gaps(ratings: Ratings, values: Floats, parts: Sequence[Part]) -> list[list[GroupGap]]:
    """For each model, every group against the rest."""
    found: list[list[GroupGap]] = [[] for _ in values]
    if not parts:
        return found
    compared = [against_rest(values, part.members, ratings.clusters) for part in parts]
    with np.errstate(invalid="ignore"):
        means = [
            np.nansum(values[:, part.members], axis=1) / (~np.isnan(values[:, part.members])).sum(axis=1)
            for part in parts
        ]
    for model, row in enumerate(values):
        shown = [
            place
            for place, part in enumerate(parts)
            if np.isfinite(compared[place].difference[model])
            and ratings.count_users(part.members & ~np.isnan(row)) >= SMALLEST_GROUP
        ]
        q_values = false_discovery([float(compared[place].p[model]) for place in shown])
        found[model] = [
            GroupGap(
                by=parts[place].by,
                value=parts[place].value,
                users=parts[place].users,
                accuracy=float(means[place][model]),
                difference=float(compared[place].difference[model]),
                low=float(compared[place].low[model]),
                high=float(compared[place].high[model]),
                q=q,
                median=float(np.nanmedian(means[place])),
            )
            for place, q in zip(shown, q_values, strict=True)
        ]
    return found


def board_findings(board: BenchmarkBoard, facts: Mapping[str, ModelFacts]) -> list[Finding]:
    """What a reader should know before believing the order."""
    table = board.tables[board.default_view, EVERYBODY, ""]
    found: list[Finding] = []
    models = [entry for entry in board.entries.values() if not entry.is_control]
    ranked = [row for row in table.rows if row.rank is not None and row.rank.rank is not None]
    if not ranked:
        text = f"fewer than {FEWEST_USERS} independent users, so no model is ranked"
        return [Finding("warning", text, about=board.card.title)]
    leaders = [row.entry for row in ranked if row.rank is not None and row.rank.rank == 1]
    controls = [entry for entry in leaders if board.entries[entry].is_control]
    if controls:
        text = f"no model is clearly better than {board.names[controls[0]]}, which understands nothing"
        found.append(Finding("warning", text, f"Seeing {board.default_view}", about=board.card.title))
    if table.leader_stays is not None:
        shared = "" if len(leaders) == 1 else f", and {count(len(leaders), 'model')} share the first rank"
        found.append(
            Finding(
                "note",
                f"the leader on half of the users also leads on the other half in {percent(table.leader_stays)} of "
                f"splits{shared}",
                about=board.card.title,
            )
        )
    told = {name for name, said in facts.items() if said.variants is not None}
    silent = [entry.id for entry in models if board.names[entry.id] not in told]
    if silent:
        found.append(
            Finding(
                "note",
                f"for {len(silent)} of {count(len(models), 'model')} nobody said how many variants were tried",
                "Their ranks count as if there had been one",
                about=board.card.title,
            )
        )
    if not any(entry.is_control for entry in board.entries.values()):
        found.append(
            Finding(
                "warning",
                "there is no control among the runs",
                "Add a run with --rm random --rm longest --rm overlap, to show what is free",
                about=board.card.title,
            )
        )
    return found
