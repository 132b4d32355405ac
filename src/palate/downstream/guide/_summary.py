"""From the ledgers of a run of guided decoding to every number that is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from palate.downstream._items import ITEMS, Seen
from palate.downstream._personal import (
    ANYWHERE,
    MANY_EMPTY,
    PersonalGain,
    personal_findings,
    personal_gains,
    shared_prompts,
)
from palate.downstream.guide._guiding import checked_weights
from palate.downstream.guide._policy_accuracy import GuidedPairs, over_alone, pair_results, personal
from palate.downstream.guide._results import GuideSummary, PairResult, TextResult
from palate.downstream.guide._run import GENERATIONS, LIKELIHOODS, GuideSettings
from palate.downstream.guide._texts import GuidedTexts
from palate.records import PalateError
from palate.report import (
    CLEAR,
    Finding,
    Severity,
    change_with_interval,
    commonest,
    count,
    named_chance,
    percent,
    warnings_first,
)
from palate.runs import LOST, Run, common_fields
from palate.stats import GAIN, Figure, Resamples, independent_clusters, paired_tests


def summarise_guide(run: Run[GuideSettings], weights: Sequence[float] | None = None) -> GuideSummary:
    """Every number from the folder alone; no model is needed.

    Policy accuracy can be had for other `weights` than those of the run: rewards do not depend on them.
    """
    settings, items = run.settings, list(run.read(ITEMS))
    if not items:
        raise PalateError(f"{run.folder / 'items.jsonl'} holds no items; the run cannot be read")
    referred = [*(line.item for line in run.read(LIKELIHOODS)), *(line.item for line in run.read(GENERATIONS))]
    lost = run.lost_items((item.id for item in items), referred)
    clusters = independent_clusters(items)
    resamples = Resamples(int(clusters.max()) + 1, settings.seed)
    users = np.array([item.user_id for item in items])
    pairs = GuidedPairs(run, items, checked_weights(weights) if weights is not None else settings.weights)
    asked = [
        (shown.name, model.label, view.name)
        for shown in settings.policy_views
        for model in settings.reward_models
        for view in settings.views
        if settings.accuracy
    ]
    seen = Seen(run, [item.id for item in items])
    shows = {view.name: seen.shows(view.name) for view in settings.views}
    credits = {one: pairs.credits(*one) for one in asked}
    texts = GuidedTexts(run, items, clusters, resamples) if settings.critic is not None else None
    steered, guided = over_alone(credits), texts.over_alone() if texts else {}
    own = [*personal(credits, settings.views, shows), *(texts.personal(shows) if texts else ())]
    columns = [(values, GAIN) for values in steered.values()] + [(values, ANYWHERE) for values in guided.values()]
    found = paired_tests(columns + [one.column for one in own], clusters, users, resamples)
    first, second = found[: len(steered)], found[len(steered) : len(columns)]
    accuracies = pair_results(credits, dict(zip(steered, first, strict=True)), clusters, users, resamples)
    written = texts.results(dict(zip(guided, second, strict=True))) if texts else []
    gains = personal_gains(own, found[len(columns) :])
    about = [*seen.warnings(settings.views), *shared_prompts(items, clusters)]
    return GuideSummary(
        **common_fields(
            run,
            items=len(items),
            users=len(set(users)),
            complete=not lost and all(pairs.complete(*one) for one in asked) and (texts is None or texts.complete),
            findings=findings(accuracies, written, gains, about, lost),
        ),
        policy=settings.policy.name,
        critic=settings.critic.name if settings.critic else None,
        top_k=settings.guiding.top_k,
        tokens=settings.guiding.tokens,
        chunk=settings.guiding.chunk,
        temperature=settings.guiding.sampling_temperature,
        pairs=sum(item.preferred is not None for item in items) if settings.accuracy else 0,
        accuracies=accuracies,
        texts=written,
        personal=gains,
        shown=seen.summary(settings.views),
    )


MANY_CUT = 0.5


def findings(
    accuracies: Sequence[PairResult],
    texts: Sequence[TextResult],
    personal: Sequence[PersonalGain],
    about: Sequence[Finding],
    lost: int = 0,
) -> list[Finding]:
    """Warnings first; `about` is what to know of the views and prompts, `lost` how many items the run held once and
    holds no more."""
    found = [*about, *_left_out(accuracies), *about_texts(texts), *personal_findings(personal)]
    found += [*_accuracies(accuracies), *_over_alone(texts)]
    if lost:
        found.append(Finding("warning", LOST.format(count=lost)))
    return warnings_first(found)


def _left_out(accuracies: Sequence[PairResult]) -> Iterator[Finding]:
    for one in accuracies:
        if one.left_out:
            yield Finding(
                "warning",
                f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): {count(one.left_out, 'comparison')} left "
                f"out of policy accuracy; mostly: {commonest(one.reasons)}",
            )


def about_texts(texts: Sequence[TextResult]) -> Iterator[Finding]:
    """What to know of what was written: items without a text or a grade, empty texts, texts cut off."""
    for one in texts:
        who, written = _who(one), one.n + one.ungraded
        if one.failed or one.ungraded:
            lost = count(one.failed + one.ungraded, "item")
            yield Finding(
                "warning", f"{who}: {lost} left out, not written or not graded; mostly: {commonest(one.reasons)}"
            )
        if written and one.empty == written:
            yield Finding("warning", f"{who} stopped at once every time: all {count(written, 'text')} are empty")
        elif one.empty:
            severity: Severity = "warning" if one.empty > MANY_EMPTY * written else "note"
            yield Finding(severity, f"{who} wrote {one.empty:,} empty texts of {written:,}")
        if one.unfinished > MANY_CUT * written and not one.rm:
            yield Finding(
                "note",
                f"{who} was cut off at the maximum number of tokens in {one.unfinished:,} of {count(written, 'text')}",
            )


def _accuracies(accuracies: Sequence[PairResult]) -> Iterator[Finding]:
    """Whether the reward model's order of whole responses carries over to the steered policy."""
    for one in accuracies:
        steered = [point for point in one.policy_accuracy if point.weight]
        if not steered or one.reward_accuracy is None:
            continue
        alone = next(point for point in one.policy_accuracy if point.weight == 0)
        best = max(steered, key=lambda point: point.normalised.value)
        clear = best.q is not None and best.q < CLEAR and best.over_alone.value > 0
        yield Finding(
            "good" if clear else "note",
            f"{one.rm} seeing {one.view} (policy sees {one.policy_view}): reward accuracy "
            f"{_share(one.reward_accuracy)}; policy accuracy {_share(alone.normalised)} alone and "
            f"{_share(best.normalised)} steered, at the best weight, {best.weight:g}"
            + ("" if clear else "; no clear gain over the policy alone"),
        )


def _over_alone(texts: Sequence[TextResult]) -> Iterator[Finding]:
    unclear: dict[str, list[str]] = {}
    for one in texts:
        over = one.over_alone
        if over is None:
            continue
        said = change_with_interval(over)
        if over.q >= CLEAR:
            unclear.setdefault(one.policy_view, []).append(f"{one.rm} seeing {one.view} at {one.weight:g} {said}")
            continue
        text = f"{_who(one)}, against the policy alone: {said}, {named_chance('q', over.q)}"
        rose = one.reward_gain is not None and one.reward_gain.value > 0
        if over.difference < 0 and rose:
            text += "; its own reward rose, so the reward is over-optimised"
        yield Finding("good" if over.difference > 0 else "warning", text)
    for view, names in unclear.items():
        yield Finding("note", f"No clear difference from the policy alone where it sees {view}: {'; '.join(names)}")


def _who(one: TextResult) -> str:
    alone = f"the policy, seeing {one.policy_view}"
    return f"{alone}, guided by {one.rm} seeing {one.view} at weight {one.weight:g}" if one.rm else f"{alone}, alone"


def _share(figure: Figure) -> str:
    interval = "" if figure.low is None else f" ({percent(figure.low)} to {percent(figure.high)})"
    return f"{percent(figure.value)}{interval}"
