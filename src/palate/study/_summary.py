"""From the runs of a study to what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np

from palate.downstream import OWN_REWARD
from palate.report import CLEAR, COEFFICIENTS, Finding, count, figure, figure_interval, named_chance, warnings_first
from palate.runs import Run, common_fields
from palate.stats import (
    ANYWHERE,
    SHARE,
    Agreement,
    Coefficient,
    FamilyAgreement,
    Figure,
    Floats,
    PredictorTest,
    Quantity,
    Range,
    Resamples,
    Statistic,
    adjusted,
    agreements,
    by_family,
    compare_predictors,
    false_discovery,
    intervals,
    ratio,
    spearman,
)
from palate.study._cells import cells_of
from palate.study._numbers import ACCURACY, AGREEMENT, FOLLOWED, GAIN, Number, Numbers, read_numbers
from palate.study._plan import BestOfN, Plan, Reach
from palate.study._results import CellState, Cost, EntryResult, NewFamilies, NumberInfo, StudySummary, Unprofiled
from palate.study._run import FAILURES, SECONDS, StudySettings, finished

FEW_MODELS = 8
"""With fewer, even a strong agreement of orders comes about by chance."""


def summarise_study(run: Run[StudySettings]) -> StudySummary:
    """Every number, recomputed from the folders of the cells; no model is needed."""
    plan = run.settings.plan
    cells = cells_of(plan)
    there = finished(run)
    numbers = read_numbers(plan, there, cells)
    copies = _copies(plan, numbers.numbers)
    compared = [_without(number, plan, copies) for number in numbers.numbers]
    predictors = [number for number in compared if number.predicts]
    outcomes = [number for number in compared if number.happens]
    primary = _primary(plan, predictors)
    families = [entry.family for entry in plan.entries]
    found = _agreements(plan, predictors, outcomes)
    tests = _against(plan, primary, predictors, outcomes)
    moderated = [
        by_family(primary.scores, outcome.scores, families, seed=plan.seed)
        for outcome in outcomes
        if primary is not None and outcome.name != primary.name
    ]
    new_families = _new_families(plan, primary, outcomes, families)
    entries = _entries(plan, numbers.numbers)
    reasons = {line.cell: line.reason for line in run.read(FAILURES)}
    unfinished = [
        CellState(cell=cell.name, reason=reasons.get(cell.name, "")) for cell in cells if cell.name not in there
    ]
    in_context = _in_context(plan, numbers, entries)
    return StudySummary(
        **common_fields(
            run,
            items=numbers.items,
            users=numbers.users,
            complete=not unfinished,
            findings=warnings_first(
                [
                    *_about_cells(unfinished, len(cells)),
                    *_about_versions(numbers.mixed),
                    *_about_copies(copies),
                    *_about_seeds(numbers.uneven),
                    *_about_own_rewards(numbers.numbers, entries),
                    *_about_noise(numbers.by_seed, primary, plan, copies),
                    *_about_size(found),
                    *_about_agreement(found, primary, new_families),
                    *_about_predictors(tests, found, primary),
                    *_about_families(moderated),
                    *_about_context(in_context),
                ]
            ),
        ),
        title=plan.title,
        entries=entries,
        numbers=[
            NumberInfo(
                name=number.name,
                measure=number.measure,
                what=number.what,
                predicts=number.predicts,
                happens=number.happens,
                share=number.share,
                models=int(np.isfinite(number.scores.values).sum()),
            )
            for number in numbers.numbers
        ],
        primary=primary.name if primary else None,
        agreements=found,
        predictors=tests,
        families=moderated,
        new_families=new_families,
        in_context=in_context,
        costs=_costs(run, plan, numbers, found),
        cells=len(cells),
        unfinished=unfinished,
    )


def _copies(plan: Plan, numbers: Sequence[Number]) -> dict[str, str]:
    """Entries that have exactly the numbers of an earlier one, wherever both have any: by name, whose."""
    rows = [[number.scores.totals[place] for number in numbers] for place in range(len(plan.entries))]
    copies: dict[str, str] = {}
    for place, entry in enumerate(plan.entries):
        for earlier, other in enumerate(plan.entries[:place]):
            both = [(one, two) for one, two in zip(rows[place], rows[earlier], strict=True) if one.any() and two.any()]
            if other.name not in copies and both and all(np.array_equal(one, two) for one, two in both):
                copies[entry.name] = other.name
                break
    return copies


def _without(number: Number, plan: Plan, copies: Mapping[str, str]) -> Number:
    """The same without what is there twice."""
    kept = np.array([entry.name not in copies for entry in plan.entries])
    scores = replace(number.scores, totals=np.where(kept[:, None, None], number.scores.totals, 0.0))
    return number._replace(scores=scores)


def _primary(plan: Plan, predictors: Sequence[Number]) -> Number | None:
    """Accuracy on the first benchmark, or nothing as long as that is not there; where the plan has no benchmark, the
    first number that can predict."""
    if not plan.predictors:
        return next(iter(predictors), None)
    first = plan.predictors[0].name
    return next((number for number in predictors if (number.measure, number.what) == (first, ACCURACY)), None)


def _agreements(plan: Plan, predictors: Sequence[Number], outcomes: Sequence[Number]) -> list[Agreement]:
    if not predictors or not outcomes:
        return []
    found = agreements([one.scores for one in predictors], [one.scores for one in outcomes], seed=plan.seed)
    return adjusted([one for one in found if not _same(plan, one.predictor, one.outcome)])


def _same(plan: Plan, predictor: str, outcome: str) -> bool:
    """Whether one tells the other by construction: a number itself, or how a model's rewards for some texts go with the
    critic's beside what it gains by choosing among those very texts."""
    measure, _, what = predictor.rpartition(": ")
    other = outcome.rpartition(": ")[0]
    drawn = {one.name: _drawn(one) for one in plan.downstream if isinstance(one, (BestOfN, Reach))}
    on_samples = what in (AGREEMENT, FOLLOWED) and {measure, other} <= {*drawn}
    return predictor == outcome or (on_samples and drawn[measure] == drawn[other])


def _drawn(use: BestOfN | Reach) -> tuple[object, ...]:
    """What decides which texts there are; with more samples, the first ones are the same."""
    return use.benchmark, use.policy, use.policy_view, msgspec.structs.replace(use.drawing, samples=1)


def _against(
    plan: Plan, primary: Number | None, predictors: Sequence[Number], outcomes: Sequence[Number]
) -> list[PredictorTest]:
    """Every other predictor against the primary one, with the false discovery rate held over these."""
    if primary is None or not outcomes:
        return []
    others = [one.scores for one in predictors if one.name != primary.name]
    found = compare_predictors([*others, primary.scores], [one.scores for one in outcomes], seed=plan.seed)
    asked = [
        one
        for one in found
        if one.second == primary.name
        and one.p is not None
        and not _same(plan, one.first, one.outcome)
        and not _same(plan, one.second, one.outcome)
    ]
    q_values = false_discovery([one.p for one in asked if one.p is not None])
    return [msgspec.structs.replace(one, q=q) for one, q in zip(asked, q_values, strict=True)]


def _new_families(
    plan: Plan, primary: Number | None, outcomes: Sequence[Number], families: Sequence[str]
) -> list[NewFamilies]:
    """The primary predictor again, with families drawn whole."""
    happened = [outcome for outcome in outcomes if primary is not None and outcome.name != primary.name]
    if primary is None or not happened:
        return []
    found = agreements([primary.scores], [one.scores for one in happened], families=families, seed=plan.seed)
    has = np.isfinite(primary.scores.values)
    return [
        NewFamilies(
            outcome=one.outcome,
            families=len(set(np.asarray(families)[has & np.isfinite(number.scores.values)].tolist())),
            spearman=one.spearman,
        )
        for one, number in zip(found, happened, strict=True)
    ]


def _entries(plan: Plan, numbers: Sequence[Number]) -> list[EntryResult]:
    figures = {
        number.name: _figures(
            number.scores.totals, number.scores.statistic, plan.seed, SHARE if number.share else ANYWHERE
        )
        for number in numbers
    }
    return [
        EntryResult(
            entry=entry.name,
            model=entry.model,
            view=entry.view,
            family=entry.family,
            numbers={name: own[place] for name, own in figures.items()},
        )
        for place, entry in enumerate(plan.entries)
    ]


def _figures(totals: Floats, statistic: Statistic, seed: int, within: Range = ANYWHERE) -> list[Figure | None]:
    """With intervals over users."""
    there = [place for place in range(len(totals)) if totals[place].any()]
    resamples = Resamples(totals.shape[1], seed=seed, n_resamples=2000)
    found: list[Figure | None] = [None] * len(totals)
    estimates = intervals([Quantity(totals[place], statistic, within) for place in there], resamples)
    for place, estimate in zip(there, estimates, strict=True):
        with np.errstate(all="ignore"):
            value = float(statistic(totals[place].sum(axis=0)))
        if np.isfinite(value):
            limits = (estimate.low, estimate.high) if estimate else (None, None)
            found[place] = Figure(value=value, low=limits[0], high=limits[1])
    return found


def _in_context(plan: Plan, numbers: Numbers, entries: Sequence[EntryResult]) -> list[Unprofiled]:
    places = {entry.name: place for place, entry in enumerate(plan.entries)}
    gains = {number.measure: number.scores.totals for number in numbers.numbers if number.what == GAIN}
    found = []
    for one in numbers.baselines:
        [gain] = _figures(one.totals[None], ratio, 0)
        own = [(entry.entry, entry.numbers.get(f"{one.measure}: {GAIN}")) for entry in entries]
        best = max(((name, figure) for name, figure in own if figure), key=lambda pair: pair[1].value, default=None)
        over_best = None
        if best is not None:
            both = np.concatenate([one.totals, gains[one.measure][places[best[0]]]], axis=1)
            [over_best] = _figures(both[None], _difference, 0)
        found.append(
            Unprofiled(
                measure=one.measure,
                view=one.view,
                gain=gain,
                best=best[0] if best else None,
                best_gain=best[1] if best else None,
                over_best=over_best,
            )
        )
    return found


def _difference(totals: Floats) -> Floats:
    """Of two means, each a total and a count."""
    return np.asarray(ratio(totals[..., :2]) - ratio(totals[..., 2:]))


def _costs(run: Run[StudySettings], plan: Plan, numbers: Numbers, found: Sequence[Agreement]) -> list[Cost]:
    lines = list(run.read(SECONDS))
    measures = {cell.name: cell.measure for cell in cells_of(plan)}
    last = next((number.name for number in reversed(numbers.numbers) if number.happens), None)
    costs = []
    for measure in plan.measures:
        own = [line for line in lines if measures.get(line.cell) == measure.name]
        first = next((n.name for n in numbers.numbers if n.measure == measure.name and n.predicts), None)
        costs.append(
            Cost(
                measure=measure.name,
                cells=len({line.cell for line in own}),
                seconds=sum(line.seconds for line in own),
                device=", ".join(sorted({line.device for line in own})),
                tokens=numbers.tokens.get(measure.name, 0),
                items=numbers.texts.get(measure.name, 0),
                validity=next((one.spearman for one in found if (one.predictor, one.outcome) == (first, last)), None),
            )
        )
    return costs


# ---- In words. ------------------------------------------------------------------------------------------------------


def _about_cells(unfinished: Sequence[CellState], cells: int) -> Iterator[Finding]:
    failed = [one for one in unfinished if one.reason]
    for one in failed[:5]:
        yield Finding("warning", f"{one.cell} failed: {one.reason}")
    if len(failed) > 5:
        yield Finding("warning", f"{len(failed) - 5} more cells failed; they are listed below")
    if waiting := len(unfinished) - len(failed):
        yield Finding("warning", f"{count(waiting, 'cell')} of {cells:,} not run yet: run the same command to go on")


def _about_versions(mixed: Sequence[str]) -> Iterator[Finding]:
    if mixed:
        yield Finding(
            "note",
            f"cells of {', '.join(mixed)} were run with different fingerprints: on another device, in another "
            "precision, or with other weights. If the weights changed, move their runs away and run the study again",
        )


def _about_copies(copies: Mapping[str, str]) -> Iterator[Finding]:
    for first in dict.fromkeys(copies.values()):
        same = [copy for copy, of in copies.items() if of == first]
        yield Finding(
            "note",
            f"{', '.join(same)} and {first} are the same in every number, as where a personal part was left out; they "
            "count as one entry",
        )


def _about_seeds(uneven: Sequence[str]) -> Iterator[Finding]:
    for measure in uneven:
        yield Finding(
            "warning",
            f"{measure}: some entries were trained with more seeds than others, and each seed holds out other users, "
            "so their gains are not about the same people",
        )


def _about_own_rewards(numbers: Sequence[Number], entries: Sequence[EntryResult]) -> Iterator[Finding]:
    """A reward that training did not raise had no chance to teach, whatever it knows."""
    for number in numbers:
        if number.what != OWN_REWARD:
            continue
        own = {one.entry: figure for one in entries if (figure := one.numbers.get(number.name)) is not None}
        flat = [name for name, figure in own.items() if figure.low is None or figure.low <= 0]
        if flat:
            yield Finding(
                "warning",
                f"{number.measure}: training did not clearly raise even the reward itself of {len(flat)} of "
                f"{count(len(own), 'entry', 'entries')}, so what they teach with more steps or at another rate is open",
                detail=", ".join(flat),
            )


def _about_noise(
    by_seed: Mapping[str, Sequence[Number]], primary: Number | None, plan: Plan, copies: Mapping[str, str]
) -> Iterator[Finding]:
    """How far seeds agree: users are resampled, and training is not."""
    for measure, numbers in by_seed.items():
        gains = [_without(number, plan, copies).scores.values for number in numbers]
        alike = [one for pair in combinations(gains, 2) if (one := _agreement(*pair)) is not None]
        if not alike:
            continue
        mean = COEFFICIENTS.value(float(np.mean(alike)))
        told = f"{measure}: two seeds order the entries with a rank correlation of {mean}"
        if primary is not None:
            each = [one for own in gains if (one := _agreement(primary.scores.values, own)) is not None]
            told += f", and {primary.name} has {', '.join(map(COEFFICIENTS.value, each))} by seed"
        yield Finding("note", f"{told}. Intervals hold no noise of training")


def _agreement(first: Floats, second: Floats) -> float | None:
    both = np.isfinite(first) & np.isfinite(second)
    found = float(spearman(first[None, both], second[None, both])[0]) if both.sum() > 2 else np.nan
    return found if np.isfinite(found) else None


def _about_size(found: Sequence[Agreement]) -> Iterator[Finding]:
    if not found:
        yield Finding("note", "nothing was both predicted and measured, so nothing can be compared")
        return
    several = [one.models for one in found if one.models > 1]  # of one entry alone there is no order
    models = min(several or [one.models for one in found if one.models], default=0)
    if models < FEW_MODELS:
        limit = next(one.detectable.spearman for one in found if one.models == models)
        told = (
            f"the smallest rank correlation that they could detect is {limit:.2f}"
            if limit is not None
            else "not even a perfect rank correlation could be told from chance"
        )
        yield Finding(
            "warning",
            f"some pairs of numbers rest on {count(models, 'entry', 'entries')} only: {told}, so do not conclude "
            "anything from their order",
        )


def _limits(one: Coefficient) -> str:
    return f"({COEFFICIENTS.interval(one.low, one.high)}, {named_chance('p', one.p)})"


def _told(one: Coefficient) -> str:
    return COEFFICIENTS.with_interval(one.value, one.low, one.high)


def _about_agreement(
    found: Sequence[Agreement], primary: Number | None, new_families: Sequence[NewFamilies]
) -> Iterator[Finding]:
    whole = {one.outcome: one for one in new_families}
    for one in found:
        if primary is None or one.predictor != primary.name or one.spearman is None:
            continue
        clear = one.spearman.q < CLEAR
        told = f"rank correlation {_told(one.spearman)} over {one.models} entries, {named_chance('q', one.spearman.q)}"
        other = whole[one.outcome]
        if clear and one.spearman.value > 0 and other.spearman is not None and other.spearman.p < CLEAR:
            yield Finding("good", f"{one.predictor} predicts {one.outcome}: {told}")
        elif clear and one.spearman.value > 0:
            interval = "" if other.spearman is None or other.spearman.low is None else f" {_limits(other.spearman)}"
            yield Finding(
                "note",
                f"{one.predictor} predicts {one.outcome} among models of these {other.families} families: {told}. For "
                f"other families it is open{interval}",
            )
        elif clear:
            yield Finding("warning", f"{one.predictor} points the wrong way for {one.outcome}: {told}")
        else:
            yield Finding("note", f"{one.predictor} does not clearly predict {one.outcome}: {told}")


def _about_predictors(
    tests: Sequence[PredictorTest], found: Sequence[Agreement], primary: Number | None
) -> Iterator[Finding]:
    """For everything that happened, the best other predictor, and whether it is clearly better."""
    for outcome in dict.fromkeys(one.outcome for one in tests):
        own = [one for one in tests if one.outcome == outcome and one.difference is not None]
        own = [one for one in own if one.models >= FEW_MODELS] or own  # a few entries agree by chance
        if not own or primary is None:
            continue
        best = max(own, key=lambda one: one.difference or 0.0)
        if (best.difference or 0.0) <= 0:
            yield Finding("note", f"no other number predicts {outcome} better than {primary.name}")
            continue
        agreement = next(one for one in found if (one.predictor, one.outcome) == (best.first, outcome))
        # q and interval are made in different ways: one alone does not say that it is better
        clear = best.q is not None and best.q < CLEAR and (best.low or 0.0) > 0
        better = COEFFICIENTS.with_interval(best.difference or 0.0, best.low, best.high)
        told = f"{better}, {named_chance('q', best.q or 1.0)}"
        value = (
            ""
            if agreement.spearman is None
            else f" (rank correlation {_told(agreement.spearman)} over {best.models} entries)"
        )
        yield Finding(
            "good" if clear else "note",
            f"of {len(own)} other numbers, {best.first} goes best with {outcome}{value}; "
            + (
                f"clearly better than {primary.name}: {told}"
                if clear
                else f"not clearly better than {primary.name}: {told}"
            ),
        )


def _about_families(found: Sequence[FamilyAgreement]) -> Iterator[Finding]:
    for one in found:
        pooled, within = one.pooled.spearman, one.centred.spearman
        if pooled is not None and within is not None and pooled.q < CLEAR and within.value < pooled.value / 3:
            lower = within.high is not None and within.high < pooled.value
            yield Finding(
                "warning",
                f"{one.predictor} and {one.outcome}: {_told(pooled)} over all entries but {_told(within)} within "
                + (
                    "families, so the benchmark tells kinds of models apart more than models of one kind"
                    if lower
                    else "families: whether it tells models of one kind apart is open"
                ),
            )


def _about_context(found: Sequence[Unprofiled]) -> Iterator[Finding]:
    for one in found:
        if one.gain is None:
            continue
        best = ""
        if one.best_gain is not None:
            best = f"; the best reward model, {one.best}, gains {figure(one.best_gain.value, sign=True)}"
        if one.over_best is not None:
            best += f", a difference of {_figure(one.over_best)}"
        clear = one.gain.low is not None and one.gain.low > 0
        yield Finding(
            "good" if clear else "note",
            f"{one.measure}: in-context learning alone (the policy sees {one.view}) gains {_figure(one.gain)}{best}",
        )


def _figure(one: Figure) -> str:
    interval = "" if one.low is None else f" ({figure_interval(one.low, one.high, sign=True)})"
    return figure(one.value, sign=True) + interval
