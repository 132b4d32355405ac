"""From raw ratings to numbers. Nothing here needs a model or the benchmark's own files."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from palate.evaluation._findings import findings_of
from palate.evaluation._items import Browsed
from palate.evaluation._paired import differences, gains, over_baseline
from palate.evaluation._ratings import Ratings, Tally
from palate.evaluation._results import Calibration, Orders, Result, Summary
from palate.evaluation._run import COSTS, Settings
from palate.evaluation._slices import slices, user_accuracies
from palate.evaluation._warnings import run_warnings, stranger_match
from palate.report import Finding
from palate.runs import Run, common_fields
from palate.stats import (
    ANYWHERE,
    SHARE,
    Estimate,
    Floats,
    Halves,
    Quantity,
    Resample,
    Resamples,
    brier,
    expected_calibration_error,
    intervals,
)
from palate.views import ViewSpec


def summarise(run: Run[Settings], *, again: bool = False, resample: Resample = "auto") -> Summary:
    """Everything that a run says, from its raw ratings; `again` reads verdicts again from what models wrote."""
    ratings = Ratings.of(run, again=again, resample=resample)
    settings = run.settings
    resamples = Resamples(ratings.n_clusters, seed=settings.seed)
    labels = [model.label for model in settings.models]
    results = _results(ratings, labels, settings.views, resamples)
    found = gains(ratings, labels, settings.views, resamples)
    over = over_baseline(ratings, labels, settings.views, settings.baseline, resamples)
    warnings = [Finding("warning", text) for text in run_warnings(settings.views, ratings, results, found, over)]
    summary = Summary(
        **common_fields(
            run,
            items=len(ratings.items),
            users=len(ratings.user_names),
            complete=ratings.missing == 0,
            findings=warnings,
        ),
        split=settings.split,
        resampled="users and items" if ratings.units else "users",
        strangers=[
            line
            for view in settings.views
            for line in stranger_match(view, ratings.shown(view.name), ratings.shown(view.of or ""))
        ],
        results=results,
        gains=found,
        differences=differences(ratings, labels, settings.views, resamples),
        over_baseline=over,
        costs=list(run.read(COSTS)),
        slices=slices(ratings, labels, settings.views, resamples),
        user_accuracies=user_accuracies(ratings, labels, settings.views),
    )
    summary = msgspec.structs.replace(summary, findings=findings_of(summary))
    vars(summary)[_BROWSED] = Browsed.of(ratings)
    return summary


_BROWSED = "browsed"


def browsed_with(summary: Summary) -> Browsed | None:
    """The items of the page, where the summary was just made from a run: so the report need not read it again."""
    browsed: Browsed | None = vars(summary).get(_BROWSED)
    return browsed


def _results(ratings: Ratings, labels: Sequence[str], views: Sequence[ViewSpec], resamples: Resamples) -> list[Result]:
    pairs = [(label, view) for label in labels for view in views]
    quantities: list[Quantity] = []
    for label, view in pairs:
        credits = ratings.credits[label, view.name]
        quantities += [
            ratings.mean(credits),
            _length_controlled(ratings, credits),
            _twin_consistency(ratings, credits),
            _oracle_gap(ratings, label, view, views),
        ]
    estimates = intervals(quantities, resamples)
    halves = Halves(ratings.users, (item.group or item.id for item in ratings.items), resamples.seed)
    return [
        _result(ratings, label, view, estimates[4 * index : 4 * index + 4], halves)
        for index, (label, view) in enumerate(pairs)
    ]


def _result(
    ratings: Ratings, label: str, view: ViewSpec, estimates: Sequence[Estimate | None], halves: Halves
) -> Result:
    accuracy, length_controlled, twins, oracle = estimates
    tally = ratings.tally(label, view.name)
    credits = ratings.credits[label, view.name]
    scored = ~np.isnan(credits)
    return Result(
        rm=label,
        view=view.name,
        of=view.of,
        n=int(scored.sum()),
        users=ratings.count_users(scored),
        accuracy=float(credits[scored].mean()) if scored.any() else None,
        low=accuracy.low if accuracy else None,
        high=accuracy.high if accuracy else None,
        macro=_macro(ratings, credits),
        worst_tenth=halves.worst_tenth(credits),
        chance=float((1 / ratings.sizes[scored]).mean()) if scored.any() else None,
        ties=int(tally.tied.sum()),
        unscored=int(tally.rated.sum()) - int(scored.sum()),
        empty=0 if view.name == "none" else int(ratings.empty(view.name).sum()),
        notes=int(tally.noted.sum()),
        length_controlled=length_controlled,
        twin_consistency=twins,
        oracle_gap_closed=oracle,
        calibration=calibration_of(tally),
        orders=_orders(tally),
    )


def _orders(tally: Tally) -> Orders | None:
    pairs = tally.verdicts.total()
    if not pairs:
        return None
    worth = {"A": 1.0, "tie": 0.5, "B": 0.0}
    return Orders(
        pairs=pairs,
        consistent=sum(count for pair, count in tally.verdicts.items() if set(pair) == {"A", "B"}),
        flipped=tally.verdicts["A", "A"] + tally.verdicts["B", "B"],
        tied=sum(count for pair, count in tally.verdicts.items() if "tie" in pair),
        first=sum((worth[one] + worth[other]) * count for (one, other), count in tally.verdicts.items()) / (2 * pairs),
    )


def _macro(ratings: Ratings, credits: Floats) -> float | None:
    scored = ~np.isnan(credits)
    counts = np.bincount(ratings.users[scored])
    sums = np.bincount(ratings.users[scored], weights=credits[scored])
    return float((sums[counts > 0] / counts[counts > 0]).mean()) if scored.any() else None


def _length_controlled(ratings: Ratings, credits: Floats) -> Quantity:
    return ratings.quantity_of(
        lambda: (
            *ratings.scored_columns(credits, ratings.longer > 0),
            *ratings.scored_columns(credits, ratings.longer < 0),
        ),
        statistic=lambda totals: (totals[..., 0] / totals[..., 1] + totals[..., 2] / totals[..., 3]) / 2,
        within=SHARE,
    )


def _twin_consistency(ratings: Ratings, credits: Floats) -> Quantity:
    one, other = ratings.twins
    scored = ~np.isnan(credits[one] + credits[other])

    def columns() -> tuple[Floats, Floats]:
        both, counted = np.zeros(len(credits)), np.zeros(len(credits))
        counted[one[scored]] = 1
        both[one] = (credits[one] == 1) & (credits[other] == 1)
        return both, counted

    return ratings.quantity_of(columns, within=SHARE)


def _oracle_gap(ratings: Ratings, label: str, view: ViewSpec, views: Sequence[ViewSpec]) -> Quantity:
    """(view - none) / (oracle - none), on items scored under all three."""
    names = [other.name for other in views]
    if not view.is_profile or "none" not in names or "oracle" not in names:
        return Quantity(np.zeros((ratings.n_clusters, 1)), lambda totals: totals[..., 0], ANYWHERE)
    none, seen, oracle = (ratings.credits[label, name] for name in ("none", view.name, "oracle"))
    scored = ~np.isnan(none + seen + oracle)
    over_none = [np.where(scored, credits - none, 0.0) for credits in (seen, oracle)]
    # The third column says who has data: a user whom nothing changes is not a user without items.
    return ratings.quantity(*over_none, scored.astype(float), statistic=_share_of_gap, within=ANYWHERE)


def _share_of_gap(totals: Floats) -> Floats:
    """Undefined, and so left out, where the oracle does not beat `none`."""
    gap = np.where(totals[..., 1] > 0, totals[..., 1], np.nan)
    return np.asarray(totals[..., 0] / gap)


def calibration_of(tally: Tally) -> Calibration | None:
    """How far the probabilities of these ratings can be believed; None where there are none."""
    if not tally.claimed:
        return None
    probabilities, preferred = zip(*tally.claimed, strict=True)
    return Calibration(
        n=len(tally.claimed),
        brier=brier(probabilities, preferred),
        ece=expected_calibration_error(probabilities, preferred),
    )
