"""What runs of this floor say of a reward model, item by item, for those who compare many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from palate.downstream._items import ITEMS, PromptItem
from palate.downstream.best_of_n._expectations import Chooser, Expectations
from palate.downstream.best_of_n._run import BestOfNSettings
from palate.downstream.guide._policy_accuracy import GuidedPairs
from palate.downstream.guide._run import ALONE, GENERATIONS, GRADES, GuideSettings
from palate.downstream.ppo._run import STEPS, PpoSettings, held_out_prompts
from palate.downstream.reach._run import ReachSettings
from palate.downstream.reach._summary import TESTS, ReachArrays, reach_columns
from palate.runs import Run
from palate.stats import Floats, Statistic, ratio

GAIN, AGREEMENT, POLICY_ACCURACY, IN_CONTEXT = "gain", "agreement", "policy accuracy", "in context"
OWN_REWARD = "own reward"
"""How much training raised the very reward that it paid, in its deviations over the texts of one prompt."""


class ItemNumber(NamedTuple):
    """A number as columns of items, and what is computed from their totals."""

    name: str
    view: str
    columns: Floats
    """(items, columns)"""
    statistic: Statistic = ratio
    share: bool = False
    """Whether it lies between 0 and 1."""


class RunNumbers(NamedTuple):
    """All numbers of a run of one reward model."""

    items: Sequence[PromptItem]
    numbers: Sequence[ItemNumber]
    tokens: int
    """Written by the policy."""


def run_numbers(run: Run[Any]) -> RunNumbers:
    """What a run of best-of-N, guided decoding, reach or policy training says of its reward model under each view."""
    return READERS[run.experiment.kind](run)


def mean_columns(values: Floats) -> Floats:
    """Columns whose ratio is the mean of the values that are there."""
    has = ~np.isnan(values)
    return np.stack([np.where(has, values, 0.0), has.astype(float)], axis=1)


def _best_of_n(run: Run[BestOfNSettings]) -> RunNumbers:
    """What choosing gains over chance, how often the model agrees with the critic on two samples of a prompt, and what
    other views of the policy gain over the first without any choosing."""
    expectations = Expectations(run)
    settings, first = run.settings, run.settings.policy_views[0].name
    top = settings.steps[-1]
    numbers = []
    for one, expected in expectations.choosers.items():
        alone = expectations.beside(one, "random")
        if one.kind == "model" and one.policy_view == first:
            gain = expected.scores[top] - alone.scores[top]
            numbers.append(ItemNumber(GAIN, one.view or "", mean_columns(gain)))
            numbers.append(
                ItemNumber(AGREEMENT, one.view or "", mean_columns(_agreements(expectations, one)), share=True)
            )
        elif one.kind == "random" and one.policy_view != first:
            chance = expectations.choosers[Chooser(policy_view=first, kind="random", name="random")]
            gain = expected.scores[settings.steps[0]] - chance.scores[settings.steps[0]]
            numbers.append(ItemNumber(IN_CONTEXT, one.policy_view, mean_columns(gain)))
    tokens = sum(sum(line.tokens) for line in expectations.samples.values())
    return RunNumbers(expectations.items, numbers, tokens)


def _agreements(expectations: Expectations, one: Chooser) -> Floats:
    """For each item, how often the model orders two samples as the critic does; half a time where it ties them."""
    found = np.full(len(expectations.items), np.nan)
    places = {item.id: place for place, item in enumerate(expectations.items)}
    for line in expectations.sampled(one.policy_view):
        marks, rewards = expectations.compared(one, line)
        shares = [
            (1 + np.sign((marks[a] - marks[b]) * (some[a] - some[b]))) / 2
            for some in rewards
            for a, b in combinations(range(len(marks)), 2)
            if marks[a] != marks[b]
        ]
        if shares:
            found[places[line.item]] = np.mean(shares)
    return found


def _guide(run: Run[GuideSettings]) -> RunNumbers:
    """At the largest weight: policy accuracy, and what guided texts are worth above the policy's own."""
    settings, items = run.settings, list(run.read(ITEMS))
    shown, weight = settings.policy_views[0].name, max(settings.weights)
    pairs = GuidedPairs(run, items, settings.weights)
    grades = run.lines(GRADES)
    numbers = []
    for model in settings.reward_models:
        for view in settings.views:
            if settings.accuracy:
                steered = pairs.credits(shown, model.label, view.name).normalised[weight]
                numbers.append(ItemNumber(POLICY_ACCURACY, view.name, mean_columns(steered), share=True))
            if settings.critic is not None:
                guided, alone = (
                    np.array([_score(grades.get((*names, item.id))) for item in items])
                    for names in ((shown, model.label, view.name, weight), (shown, ALONE, ALONE, 0.0))
                )
                numbers.append(ItemNumber(GAIN, view.name, mean_columns(guided - alone)))
    return RunNumbers(items, numbers, sum(line.tokens for line in run.read(GENERATIONS)))


def _score(line: Any) -> float:
    return np.nan if line is None or line.grade.score is None else float(line.grade.score)


def _ppo(run: Run[PpoSettings]) -> RunNumbers:
    """What held-out users gained by the critic's score, and by the reward itself."""
    items, lines = held_out_prompts(run)
    changes = np.full(len(items), np.nan)
    for place, line in enumerate(lines):
        before, after = ([one.score for one in line.grades[side] if one.score is not None] for side in line.sides)
        if before and after:
            changes[place] = np.mean(after) - np.mean(before)
    numbers = [ItemNumber(GAIN, run.settings.view.name, mean_columns(changes))]
    rewards = [np.reshape(line.rating.scores, (2, -1)) if line.rating.scores else None for line in lines]
    spread = [float(some[0].var(ddof=1)) for some in rewards if some is not None and some.shape[1] > 1]
    if spread and (deviation := float(np.sqrt(np.mean(spread)))):
        rises = [np.nan if some is None else float(some[1].mean() - some[0].mean()) / deviation for some in rewards]
        numbers.append(ItemNumber(OWN_REWARD, run.settings.view.name, mean_columns(np.array(rises))))
    training = run.settings.training
    texts = training.prompts * training.samples
    tokens = round(sum(line.length for line in run.read(STEPS)) * texts) + sum(sum(line.tokens) for line in lines)
    return RunNumbers(items, numbers, tokens)


def _reach(run: Run[ReachSettings]) -> RunNumbers:
    """What a step along the reward's gradient brings other people, in the critic's score and in the reward itself."""
    arrays = ReachArrays(run)
    [model] = run.settings.reward_models
    columns = dict(zip(TESTS, reach_columns(arrays, model.label), strict=True))
    view = run.settings.view.name
    numbers = [ItemNumber(name, view, mean_columns(columns[name])) for name in ("reach", "pays", "rise", "followed")]
    return RunNumbers(arrays.items, numbers, sum(sum(line.tokens) for line in arrays.drawn))


READERS: dict[str, Callable[[Run[Any]], RunNumbers]] = {
    "best-of-n": _best_of_n,
    "guide": _guide,
    "reach": _reach,
    "ppo": _ppo,
}
