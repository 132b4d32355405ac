"""From the runs of a study to numbers: what each measure says of each entry, as totals over the same people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.downstream import PPO, ItemNumber, mean_columns, run_numbers
from palate.evaluation import RATINGS, Ratings
from palate.evaluation import Settings as EvaluationSettings
from palate.records import PalateError
from palate.runs import Run, open_run
from palate.stats import Floats, Scores, cluster_totals, independent_clusters
from palate.study._cells import EXPERIMENT_OF, Cell, entries_of, shown_on
from palate.study._plan import IN_CONTEXT, BestOfN, Measure, Plan, Predictor, Reach

ACCURACY, AGREEMENT, FOLLOWED, GAIN = "accuracy", "agreement", "followed", "gain"
PREDICTORS = (AGREEMENT, "policy accuracy", "reach", "pays", "rise", FOLLOWED)
"""What uses say of a reward model before anything is written or trained with it."""
OUTCOMES = (GAIN, "policy accuracy")
LOW = 0.1
"""The quantile of users that stands for those who are served badly."""
GRID = np.linspace(0.0, 1.0, 41)
"""Accuracies of single users are counted at these points."""
FEWEST_OF_USER = 2
FEWEST_OF_CATEGORY = 10


class Number(NamedTuple):
    """One number of a measure for every entry."""

    measure: str
    what: str
    predicts: bool
    happens: bool
    share: bool
    """Whether it lies between 0 and 1."""
    scores: Scores

    @property
    def name(self) -> str:
        """As tables call it."""
        return f"{self.measure}: {self.what}"


class Baseline(NamedTuple):
    """What the policy gains by being shown something, without any reward model."""

    measure: str
    view: str
    totals: Floats


class Numbers(NamedTuple):
    """All that a study measured."""

    numbers: list[Number]
    baselines: list[Baseline]
    tokens: dict[str, int]
    """Written by policies, by measure."""
    texts: dict[str, int]
    """Rated by reward models, by measure."""
    items: int
    users: int
    mixed: list[str]
    """Models whose cells do not all have the same fingerprint: another device or precision, or other weights."""
    uneven: list[str]
    """Measures that do not have the same seeds of all entries."""
    by_seed: dict[str, list[Number]]
    """By measure that was trained with several seeds, the gains with each of them alone."""


class _Read(NamedTuple):
    """A run of a cell, read."""

    cell: Cell
    people: str
    """The benchmark that they are of: runs on it share its users."""
    version: str
    fingerprint: str
    """Of the reward model."""
    items: Sequence[Any]
    numbers: Sequence[ItemNumber]
    tokens: int


def read_numbers(plan: Plan, runs: Mapping[str, Path], cells: Sequence[Cell]) -> Numbers:
    """From the folders of finished cells, by the cells' names."""
    measures = {measure.name: measure for measure in plan.measures}
    read = [
        _read(measures[cell.measure], cell, runs[cell.name]) for cell in cells if cell.measure and cell.name in runs
    ]
    _refuse_other_versions(read, measures)
    clusters = {people: _clusters([one for one in read if one.people == people]) for people in {r.people for r in read}}
    numbers: list[Number] = []
    by_seed: dict[str, list[Number]] = {}
    for measure in plan.measures:
        own = [one for one in read if one.cell.measure == measure.name and one.cell.model != IN_CONTEXT]
        if own:
            numbers += _of_measure(plan, measure, own, clusters[own[0].people])
        drawn = sorted({one.cell.seed for one in own if one.cell.seed is not None})
        for seed in drawn if len(drawn) > 1 else ():
            alone = _of_measure(plan, measure, [one for one in own if one.cell.seed == seed], clusters[own[0].people])
            by_seed.setdefault(measure.name, []).extend(number for number in alone if number.what == GAIN)
    baselines = [
        Baseline(one.cell.measure, number.view, _totals(number.columns, one.items, clusters[one.people]))
        for one in read
        if one.cell.model == IN_CONTEXT
        for number in one.numbers
        if number.name == IN_CONTEXT
    ]
    main = read[0].people if read else ""
    users = {item.user_id for one in read if one.people == main for item in one.items}
    items = {item.id for one in read if one.people == main for item in one.items}
    tokens: dict[str, int] = {}
    for one in read:
        so_far = tokens.get(one.cell.measure, 0)
        shared = isinstance(measures[one.cell.measure], (BestOfN, Reach))
        tokens[one.cell.measure] = max(so_far, one.tokens) if shared else so_far + one.tokens
    texts = {name: sum(len(one.items) for one in read if one.cell.measure == name) for name in measures}
    versions: dict[str, set[str]] = {}
    for one in read:
        versions.setdefault(one.cell.model, set()).add(one.fingerprint)
    mixed = [model for model, found in versions.items() if len(found) > 1]
    seeds: dict[str, dict[tuple[str, str], set[int | None]]] = {}
    for cell in (one.cell for one in read):
        seeds.setdefault(cell.measure, {}).setdefault((cell.model, cell.view), set()).add(cell.seed)
    uneven = [measure for measure, own in seeds.items() if len({frozenset(some) for some in own.values()}) > 1]
    return Numbers(numbers, baselines, tokens, texts, len(items), len(users), mixed, uneven, by_seed)


def _read(measure: Measure, cell: Cell, folder: Path) -> _Read:
    run = open_run(folder, EXPERIMENT_OF[type(measure)])
    people, version = measure.benchmark, run.settings.content_hash
    if isinstance(measure, Predictor):
        ratings = Ratings.of(run)
        return _Read(cell, people, version, _fingerprint(run), ratings.items, list(_of_ratings(run, ratings)), 0)
    found = run_numbers(run)
    return _Read(cell, people, version, _fingerprint(run), found.items, found.numbers, found.tokens)


def _fingerprint(run: Run[Any]) -> str:
    """Of the one reward model of a run."""
    settings = run.settings
    if isinstance(settings, EvaluationSettings):
        [model] = settings.models
    else:
        model = settings.reward_model if run.experiment is PPO else settings.reward_models[0]
    return str(model.identity.get("fingerprint", ""))


def _refuse_other_versions(read: Sequence[_Read], measures: Mapping[str, Measure]) -> None:
    """All runs on a benchmark of one name have to be on the same version of it."""
    versions: dict[tuple[str, bool], set[str]] = {}
    for one in read:
        scored = isinstance(measures[one.cell.measure], Predictor)  # perhaps on pairs that were made of it
        versions.setdefault((one.people, scored), set()).add(one.version)
    for (name, _), hashes in versions.items():
        if len(hashes) > 1:
            raise PalateError(
                f"runs of this study are on {len(hashes)} versions of {name} ({', '.join(sorted(hashes))}), and cannot "
                "be compared. Move the older ones away and run the study again."
            )


def _clusters(read: Sequence[_Read]) -> dict[str, int]:
    """By user, over all runs on one benchmark: who is independent of whom."""
    items = list({item.id: item for one in read for item in one.items}.values())
    codes = independent_clusters(items)
    return {item.user_id: int(code) for item, code in zip(items, codes, strict=True)}


def _totals(columns: Floats, items: Sequence[Any], clusters: Mapping[str, int]) -> Floats:
    codes = [clusters[item.user_id] for item in items]
    return cluster_totals(columns, codes, max(clusters.values()) + 1)


def _of_measure(plan: Plan, measure: Measure, read: Sequence[_Read], clusters: Mapping[str, int]) -> Iterator[Number]:
    entries = entries_of(plan, measure)
    found: dict[str, dict[str, Floats]] = {}
    kinds: dict[str, ItemNumber] = {}
    for one in read:
        for entry in (entry for entry in entries if entry.model == one.cell.model):
            view = one.cell.view or shown_on(measure, entry.view)
            if one.cell.view not in ("", entry.view):
                continue
            for number in one.numbers:
                if number.view == view:
                    kinds.setdefault(number.name, number)
                    own = found.setdefault(number.name, {})
                    # Runs with several seeds are added up.
                    own[entry.name] = own.get(entry.name, 0.0) + _totals(number.columns, one.items, clusters)
    for what, own in found.items():
        nothing = np.zeros_like(next(iter(own.values())))
        totals = np.stack([own.get(entry.name, nothing) for entry in plan.entries])
        name = f"{measure.name}: {what}"
        yield Number(
            measure.name,
            what,
            predicts=isinstance(measure, Predictor) or what in PREDICTORS,
            happens=not isinstance(measure, Predictor) and what in OUTCOMES,
            share=kinds[what].share,
            scores=Scores(name, totals, kinds[what].statistic, people=read[0].people),
        )


# ---- What a benchmark says of a reward model, in several ways. ------------------------------------------------------


def _of_ratings(run: Run[EvaluationSettings], ratings: Ratings) -> Iterator[ItemNumber]:
    """Of every view that is no control of another."""
    [label] = [model.label for model in run.settings.models]
    views = {view.name: view for view in run.settings.views}
    margins = _margins(run, ratings)
    for name, view in views.items():
        credits = ratings.credits[label, name]
        alone = ratings.credits[label, "none"]
        yield ItemNumber(ACCURACY, name, mean_columns(credits), share=True)
        yield ItemNumber("accuracy, no profile", name, mean_columns(alone), share=True)
        yield ItemNumber("gain over no profile", name, mean_columns(credits - alone))
        stranger = f"swapped:{name}" if view.is_profile else name
        if view.is_profile or name == "none":
            yield ItemNumber("gain over a stranger", name, mean_columns(credits - ratings.credits[label, stranger]))
        yield ItemNumber("margin-weighted accuracy", name, margins[name], share=True)
        longer = ratings.longer
        sides = [mean_columns(np.where(where, credits, np.nan)) for where in (longer > 0, longer < 0)]
        yield ItemNumber("length-controlled accuracy", name, np.concatenate(sides, axis=1), _mean_of_two, share=True)
        if any(item.twin for item in ratings.items):
            yield ItemNumber("twin consistency", name, mean_columns(_twins(ratings, credits)), share=True)
        if (columns := _by_category(ratings, credits)) is not None:
            yield ItemNumber("worst category", name, columns, _worst, share=True)
        yield ItemNumber(f"users at the {LOW:.0%} quantile", name, _by_user(ratings, credits), _quantile, share=True)


def _mean_of_two(totals: Floats) -> Floats:
    return np.asarray((totals[..., 0] / totals[..., 1] + totals[..., 2] / totals[..., 3]) / 2)


def _margins(run: Run[EvaluationSettings], ratings: Ratings) -> dict[str, Floats]:
    """By view, credits weighted by how far the preferred response is from the best of the others."""
    columns = {view.name: np.zeros((len(ratings.items), 2)) for view in run.settings.views}
    places = {item.id: place for place, item in enumerate(ratings.items)}
    for line in run.read(RATINGS):
        scores, place = line.rating.scores, places.get(line.item)
        if place is not None and scores is not None and line.view in columns:
            preferred = ratings.items[place].preferred
            margin = scores[preferred] - max(score for index, score in enumerate(scores) if index != preferred)
            columns[line.view][place] += max(margin, 0.0), abs(margin)
    return columns


def _twins(ratings: Ratings, credits: Floats) -> Floats:
    """For one of each two twins whether both are right."""
    place = {item.id: index for index, item in enumerate(ratings.items)}
    both = np.full(len(ratings.items), np.nan)
    for index, item in enumerate(ratings.items):
        other = place.get(item.twin or "", -1)
        if other > index and not np.isnan(credits[[index, other]]).any():
            both[index] = float(credits[index] == 1 and credits[other] == 1)
    return both


def _by_category(ratings: Ratings, credits: Floats) -> Floats | None:
    """Two columns for each category that has enough items; None with fewer than two of them."""
    of = np.array([item.category or "" for item in ratings.items])
    names = [name for name in np.unique(of) if name and np.count_nonzero(of == name) >= FEWEST_OF_CATEGORY]
    if len(names) < 2:
        return None
    return np.concatenate([mean_columns(np.where(of == name, credits, np.nan)) for name in names], axis=1)


def _worst(totals: Floats) -> Floats:
    return np.asarray((totals[..., ::2] / totals[..., 1::2]).min(axis=-1))


def _by_user(ratings: Ratings, credits: Floats) -> Floats:
    """On the first item of each user: how many users are at most as accurate as each point of the grid, and one."""
    columns = np.zeros((len(ratings.items), len(GRID) + 1))
    users: NDArray[np.intp] = ratings.users
    for user in np.unique(users):
        own = np.flatnonzero(users == user)
        scored = credits[own][~np.isnan(credits[own])]
        if len(scored) >= FEWEST_OF_USER:
            columns[own[0]] = [*(scored.mean() <= GRID + 1e-9), 1.0]
    return columns


def _quantile(totals: Floats) -> Floats:
    """The accuracy below which a tenth of the users lie, between the points of the grid."""
    shares = totals[..., :-1] / totals[..., -1:]
    above = np.argmax(shares >= LOW, axis=-1)
    before = np.maximum(above - 1, 0)
    high = np.take_along_axis(shares, above[..., None], -1)[..., 0]
    low = np.where(above > 0, np.take_along_axis(shares, before[..., None], -1)[..., 0], 0.0)
    with np.errstate(all="ignore"):
        between = np.where(high > low, (LOW - low) / (high - low), 0.0)
    value = np.where(above > 0, GRID[before] + np.clip(between, 0, 1) * (GRID[above] - GRID[before]), GRID[0])
    return np.where(np.isnan(shares[..., 0]), np.nan, value)
