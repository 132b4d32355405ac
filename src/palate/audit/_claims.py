"""How much of a claimed gain over guessing is left once the best that reads nothing of the person is taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.evaluation import EVALUATION, Ratings
from palate.records import Benchmark, PalateError
from palate.rewards import CONTROLS
from palate.runs import open_run
from palate.stats import Estimate, Floats, Resamples, intervals

_SHARE = (-np.inf, 1.0)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """An accuracy that is said to show personalisation, and what is left of it."""

    rm: str | None
    view: str | None
    """Of a run; null where the accuracy was given as a number, which is then taken as exact."""
    accuracy: float
    chance: float
    best: str
    """The best of what reads nothing of the person; `guessing` where nothing does better."""
    best_accuracy: float
    stranger: float | None
    """What the same model gets with a stranger's profile instead, in runs that have one."""
    survives: Estimate | None
    """The part of the gain over guessing that is also a gain over the best impersonal; below 0 where the claim does
    worse than that. Null where nothing is claimed over guessing."""


class Impersonal(msgspec.Struct, frozen=True):
    """What of the person reads nothing: by name, what each item of the sheet earned; nan where it was not scored."""

    ratings: Ratings
    credits: dict[str, Floats]

    @property
    def chances(self) -> Floats:
        """What guessing gets on each item."""
        return np.array([1 / len(item.responses) for item in self.ratings.items])


def check_claimed(claimed: float) -> None:
    """Refuse what is no accuracy, before anything is measured."""
    if not 0 < claimed <= 1:
        raise PalateError(f"a claimed accuracy is a share above 0 and at most 1, such as 0.86; {claimed:g} was given")


def judge_number(claimed: float, impersonal: Impersonal, seed: int) -> Claim:
    """What survives of an accuracy that was published."""
    return _judge(None, None, np.full(len(impersonal.ratings.items), claimed), {}, None, impersonal, seed)


def judge_run(folder: str | Path, benchmark: Benchmark, impersonal: Impersonal, seed: int) -> list[Claim]:
    """What survives of every model of a run that was shown a profile, the most accurate first."""
    run = open_run(Path(folder), EVALUATION)
    settings = run.settings
    if settings.benchmark.name != benchmark.card.name:
        raise PalateError(
            f"{folder} is a run on {settings.benchmark.name}, and the audit is of {benchmark.card.name}: name the "
            "benchmark that the run measured"
        )
    ratings = Ratings.of(run)
    place = {item.id: row for row, item in enumerate(ratings.items)}
    rows = [place.get(item.id, -1) for item in impersonal.ratings.items]
    if max(rows, default=-1) < 0:
        raise PalateError(f"no item of {folder} is in {benchmark.card.name} now: the benchmark has changed since")

    def credits(rm: str, view: str) -> Floats:
        return np.append(ratings.credits[rm, view], np.nan)[rows]

    views = {view.name: view for view in settings.views}
    models = [model.label for model in settings.models if model.label not in CONTROLS]
    claims = []
    for rm in models:
        own = {f"{rm} without a profile": credits(rm, "none")} if "none" in views else {}
        for name, view in views.items():
            if not view.is_profile or np.isnan(credits(rm, name)).all():
                continue
            strangers = [credits(rm, other) for other in views if other.startswith("swapped") and other.endswith(name)]
            claims.append(_judge(rm, name, credits(rm, name), own, next(iter(strangers), None), impersonal, seed))
    if not claims:
        raise PalateError(
            f"{folder} has no model that was shown a profile, so nothing claims to be personal. Run palate eval with a "
            "view such as posts:5 beside none."
        )
    return sorted(claims, key=lambda claim: -claim.accuracy)


def _judge(
    rm: str | None,
    view: str | None,
    claimed: Floats,
    own: Mapping[str, Floats],
    stranger: Floats | None,
    impersonal: Impersonal,
    seed: int,
) -> Claim:
    """The claim beside everything that reads nothing of the person, on the same items where that can be."""
    scored = ~np.isnan(claimed)
    on_its_items = {name: _on_items(credits, scored) for name, credits in {**impersonal.credits, **own}.items()}
    rivals = {name: credits for name, credits in on_its_items.items() if _enough(credits)}
    chance = np.where(scored, impersonal.chances, np.nan)
    best = max(rivals, key=lambda name: float(np.nanmean(rivals[name])), default="guessing")
    level, best_level = float(np.nanmean(chance)), float(np.nanmean(rivals[best])) if rivals else 0.0
    if best_level <= level:
        best, best_level = "guessing", level
    accuracy = float(np.nanmean(claimed))
    survives = _survives(claimed, chance, list(rivals.values()), impersonal.ratings, seed) if accuracy > level else None
    return Claim(
        rm=rm,
        view=view,
        accuracy=accuracy,
        chance=level,
        best=best,
        best_accuracy=best_level,
        stranger=float(np.nanmean(stranger)) if stranger is not None and _enough(stranger) else None,
        survives=survives,
    )


def _on_items(credits: Floats, scored: NDArray[np.bool_]) -> Floats:
    """What a rival earned on the items of the claim, where it has most of them; else on all that it has."""
    there = np.where(scored, credits, np.nan)
    return there if np.count_nonzero(~np.isnan(there)) >= np.count_nonzero(scored) / 2 else credits


def _enough(credits: Floats) -> bool:
    return bool(np.count_nonzero(~np.isnan(credits)) >= 2)


def _survives(
    claimed: Floats, chance: Floats, rivals: Sequence[Floats], ratings: Ratings, seed: int
) -> Estimate | None:
    """What is left over the best rival, with an interval that holds the same over every rival that may be the best.

    Of several rivals that are as good, the one that comes out best has been lucky, and an interval over that one alone
    would lie too low. So the limits are the furthest of those over all rivals whose own estimate the interval over the
    best one holds.
    """
    level, exact = float(np.nanmean(chance)), float(np.nanmean(claimed))
    # Of a claim that is a bare number, a rival that is always right leaves the least.
    bare = bool(np.nanmax(claimed) == np.nanmin(claimed))
    within = ((exact - 1) / (exact - level), 1.0) if bare else _SHARE
    quantities = [
        ratings.quantity(*_columns(ratings, claimed, chance, rival), statistic=_left, within=within)
        for rival in (rivals or [chance])
    ]
    found = intervals(quantities, Resamples(ratings.n_clusters, seed=seed))
    known = [one for one in found if one is not None]
    if not known:
        return None
    best = min(known, key=lambda one: one.value)
    near = [one for one in known if one.value <= best.high]
    return Estimate(best.value, min(one.low for one in near), max(one.high for one in near))


def _columns(ratings: Ratings, *credits: Floats) -> list[Floats]:
    return [column for values in credits for column in ratings.scored_columns(values)]


def _left(totals: Floats) -> Floats:
    """From sums and counts of the claim, of guessing and of a rival."""
    means = totals[..., 0::2] / totals[..., 1::2]
    claimed, chance = means[..., 0], means[..., 1]
    best = np.nanmax(means[..., 1:], axis=-1)
    return np.asarray((claimed - best) / (claimed - chance))


def aligned(items: Sequence[str], credits: Mapping[str, float]) -> Floats:
    """Credits by item id, in the order of the items; nan for those that have none."""
    return np.array([credits.get(id, np.nan) for id in items])
