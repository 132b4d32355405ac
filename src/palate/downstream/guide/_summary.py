"""From the ledgers of a run of guided decoding to every number that is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.downstream._items import ITEMS, Seen
from palate.downstream._personal import ANYWHERE, personal_gains, shared_prompts
from palate.downstream.guide._findings import findings
from palate.downstream.guide._guiding import checked_weights
from palate.downstream.guide._policy_accuracy import Pairs, over_alone, pair_results, personal
from palate.downstream.guide._results import GuideSummary
from palate.downstream.guide._run import GENERATIONS, LIKELIHOODS, GuideSettings
from palate.downstream.guide._texts import Texts
from palate.records import PalateError
from palate.runs import Run, common_fields
from palate.stats import GAIN, Resamples, independent_clusters, tested


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
    pairs = Pairs(run, items, checked_weights(weights) if weights is not None else settings.weights)
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
    texts = Texts(run, items, clusters, resamples) if settings.critic is not None else None
    steered, guided = over_alone(credits), texts.over_alone() if texts else {}
    own = [*personal(credits, settings.views, shows), *(texts.personal(shows) if texts else ())]
    columns = [(values, GAIN) for values in steered.values()] + [(values, ANYWHERE) for values in guided.values()]
    found = tested(columns + [one.column for one in own], clusters, users, resamples)
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
