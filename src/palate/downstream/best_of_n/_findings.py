"""What a best-of-N run says in words: what to distrust first, then what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.downstream._personal import MANY_EMPTY, PersonalGain, personal_findings, shared_prompts
from palate.downstream.best_of_n._differences import difference
from palate.downstream.best_of_n._expectations import Expectations
from palate.downstream.best_of_n._results import BestOfNDifference, Curve, PolicySamples
from palate.report import CLEAR, Finding, chance_of_error, change_with_interval, commonest, count, warnings_first
from palate.runs import LOST
from palate.stats import Quantity, Resamples, mean_totals, paired_differences, ratio

MANY_CUT = 0.5
FEW_DISTINCT = 0.5


def findings(
    expectations: Expectations,
    policies: Sequence[PolicySamples],
    curves: Sequence[Curve],
    differences: Sequence[BestOfNDifference],
    personal: Sequence[PersonalGain],
    resamples: Resamples,
) -> list[Finding]:
    """Warnings first."""
    found = [
        *about_samples(policies),
        *expectations.seen.warnings(expectations.settings.views),
        *about_left_out(curves),
        *shared_prompts(expectations.items, expectations.clusters),
    ]
    found += [*_over_optimised(expectations, resamples), *personal_findings(personal)]
    found += [*_gains(differences), *_in_context(differences)]
    if expectations.lost:
        found.append(Finding("warning", LOST.format(count=expectations.lost)))
    return warnings_first(found)


def about_samples(policies: Sequence[PolicySamples]) -> Iterator[Finding]:
    """What to know of what a policy wrote: failures, empty texts, repeats, and what it could not see."""
    for one in policies:
        seeing = f"seeing {one.policy_view}, the policy"
        if one.failed:
            yield Finding(
                "warning",
                f"{seeing} wrote nothing for {count(one.failed, 'item')}, which are left out: {commonest(one.reasons)}",
            )
        if not one.samples:
            continue
        if one.empty == one.samples:
            yield Finding("warning", f"{seeing} stopped at once every time: all {one.samples:,} samples are empty")
        elif one.empty > MANY_EMPTY * one.samples:
            yield Finding("warning", f"{seeing} wrote {one.empty:,} empty texts of {one.samples:,}")
        if one.distinct is not None and one.samples > one.sampled and one.distinct < FEW_DISTINCT:
            yield Finding(
                "warning",
                f"{seeing} repeats itself: only {one.distinct:.0%} of an item's samples differ, so there is little "
                "to choose from",
            )
        if one.unfinished > MANY_CUT * one.samples:
            yield Finding(
                "note", f"{seeing} was cut off at the most tokens in {one.unfinished:,} of {one.samples:,} samples"
            )
        if one.unseen:
            yield Finding(
                "warning" if one.unseen > MANY_EMPTY * one.sampled else "note",
                f"{seeing} saw nothing of the user for {count(one.unseen, 'item')}: the view is empty or did not fit",
            )
        if one.shortened:
            yield Finding(
                "note", f"{seeing} saw only part of the view for {count(one.shortened, 'item')}: the rest did not fit"
            )


def about_left_out(curves: Sequence[Curve]) -> Iterator[Finding]:
    """Items without a score, and why."""
    for curve in curves:
        if curve.left_out and curve.kind in ("model", "oracle"):
            who = f"{curve.chooser} seeing {curve.view}" if curve.kind == "model" else "the critic"
            lost = f"{who} (policy sees {curve.policy_view}): {count(curve.left_out, 'item')} left out, unscored"
            yield Finding("warning", f"{lost}; mostly: {commonest(curve.reasons)}")


def _over_optimised(expectations: Expectations, resamples: Resamples) -> Iterator[Finding]:
    """The reward of the choice cannot fall as k grows; the critic's score can.

    The best k is picked by its score, so an interval alone would cry wolf: the fall from every k counts as a test.
    """
    *steps, top = expectations.settings.steps
    models = [one for one, expected in expectations.choosers.items() if one.kind == "model" and expected.has.any()]
    tried = [(one, k) for one in models for k in steps]
    columns = [difference(expectations, (one, k), (one, top)) for one, k in tried]
    totals = [mean_totals(column, expectations.clusters, expectations.n_clusters) for column in columns]
    falls = dict(zip(tried, paired_differences([Quantity(total, ratio) for total in totals], resamples), strict=True))
    for one, peak in [max(((one, k) for k in steps), key=lambda key: falls[key].difference) for one in models if steps]:
        fall = falls[one, peak]
        if fall.low is not None and fall.low > 0 and fall.q < CLEAR:
            yield Finding(
                "warning",
                f"over-optimised: with {one.name} seeing {one.view} (policy sees {one.policy_view}), the reward keeps "
                f"rising, but the critic's score is best at k = {peak} and {fall.difference:.3f} lower at k = {top} "
                f"({fall.low:.3f} to {fall.high:.3f}), q = {chance_of_error(fall.q)}",
            )


def _gains(differences: Sequence[BestOfNDifference]) -> Iterator[Finding]:
    """What is clear gets a sentence of its own; what is not, one for each policy view."""
    unclear: dict[str, list[str]] = {}
    for one in differences:
        if one.about != "over random":
            continue
        who, view = f"{one.one.chooser} seeing {one.one.view}", one.one.policy_view
        said = change_with_interval(one)
        if one.q >= CLEAR:
            unclear.setdefault(view, []).append(f"{who} {said}")
            continue
        text = f"best of {one.one.k} by {who} (policy sees {view}) against random: {said}, q = {chance_of_error(one.q)}"
        yield Finding("good" if one.difference > 0 else "warning", text)
    for view, names in unclear.items():
        yield Finding("note", f"no clear difference from random where the policy sees {view}: {'; '.join(names)}")


def _in_context(differences: Sequence[BestOfNDifference]) -> Iterator[Finding]:
    for one in differences:
        if not one.about.startswith("in context"):
            continue
        other = one.other
        than = f"the same policy seeing {other.policy_view}"
        if one.about == "in context or best-of-n":
            than = f"best of {other.k} by {other.chooser} seeing {other.view} on samples that saw {other.policy_view}"
        said = f"{change_with_interval(one)}, q = {chance_of_error(one.q)}"
        clear = "" if one.q < CLEAR else ", not clear"
        text = (
            f"in-context learning alone (policy sees {one.one.policy_view}, one sample) against {than}: {said}{clear}"
        )
        better = one.q < CLEAR and one.difference > 0
        yield Finding("good" if better else "note", text)
