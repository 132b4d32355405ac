"""Policy accuracy: responses of comparisons token by token, and whole. Every stage goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from palate.downstream.guide._measure import Measurement, chunks, side_by_side
from palate.downstream.guide._pairs import policy_likelihoods, token_rewards
from palate.downstream.guide._run import GuideWriter, LikelihoodLine, PairRatingLine, TokenRewardLine
from palate.evaluation import in_benchmark_order, make_ask
from palate.records import Comparison
from palate.runs import LoadedModel, ratings_of
from palate.views import Missing, ViewSpec


def measure_pairs(given: Measurement, writer: GuideWriter) -> None:
    """What the policy finds likely; what reward models say of it; what they say of whole responses."""
    _read(given, writer)
    _follow(given, writer)
    _rate(given, writer)


def _read(given: Measurement, writer: GuideWriter) -> None:
    for spec in given.settings.policy_views:
        missing = [item for item in given.pairs if (spec.name, item.id) not in writer.likelihoods.lines]
        for lines in side_by_side(missing, given.lanes, partial(_likelihoods, given, writer, spec)):
            writer.likelihoods.add(lines)


def _likelihoods(
    given: Measurement, writer: GuideWriter, spec: ViewSpec, some: Sequence[Comparison]
) -> list[LikelihoodLine]:
    given.tell(f"{given.policy.name} reads pairs, seeing {spec.name}", writer)
    seen, unseen = given.views(spec, some)
    found = policy_likelihoods(given.policy, spec.name, seen, given.settings.guiding.top_k)
    lines = {line.item: line for line in found}
    for item, reason in unseen.items():
        lines[item] = LikelihoodLine(policy_view=spec.name, item=item, failed=reason)
    return [lines[item.id] for item in some]


def _follow(given: Measurement, writer: GuideWriter) -> None:
    for shown in (view.name for view in given.settings.policy_views):
        read = [item for item in given.pairs if writer.likelihoods.lines[shown, item.id].failed is None]
        for model, spec in given.rewards():
            rm = model.settings.label
            missing = [item for item in read if (shown, rm, spec.name, item.id) not in writer.rewards.lines]
            for lines in side_by_side(missing, given.lanes, partial(_rewards, given, writer, shown, model, spec)):
                writer.rewards.add(lines)


def _rewards(
    given: Measurement,
    writer: GuideWriter,
    shown: str,
    model: LoadedModel,
    spec: ViewSpec,
    some: Sequence[Comparison],
) -> list[TokenRewardLine]:
    rm = model.settings.label
    given.tell(f"{rm} follows pairs, seeing {spec.name}{model.status}", writer)
    seen, unseen = given.views(spec, some)
    known = [writer.likelihoods.lines[shown, item.id] for item, _ in seen]
    lines = {line.item: line for line in token_rewards(given.policy, model.model, (rm, spec.name), seen, known)}
    for item, reason in unseen.items():
        lines[item] = TokenRewardLine(policy_view=shown, rm=rm, view=spec.name, item=item, unscored=reason)
    return [lines[item.id] for item in some]


def _rate(given: Measurement, writer: GuideWriter) -> None:
    seed = given.settings.seed
    for model, spec in given.rewards():
        rm = model.settings.label
        missing = [item for item in given.pairs if (rm, spec.name, item.id) not in writer.ratings.lines]
        for some in chunks(missing, model.batch_size):
            given.tell(f"{rm} rates pairs, seeing {spec.name}{model.status}", writer)
            built = zip(some, given.builder.build(spec, some), strict=True)
            asks = [view if isinstance(view, Missing) else make_ask(item, view, seed) for item, view in built]
            writer.ratings.add(
                [
                    PairRatingLine(rm=rm, view=spec.name, item=item.id, rating=in_benchmark_order(rating, item, seed))
                    for item, rating in zip(some, ratings_of(model, asks), strict=True)
                ]
            )
