"""From the raw files of a training run to every number that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from palate.downstream._items import Seen
from palate.downstream._personal import (
    AGREEMENT,
    SCORE,
    Against,
    PersonalGain,
    against,
    controls,
    personal_findings,
    personal_gains,
)
from palate.downstream.ppo._findings import findings
from palate.downstream.ppo._results import ByView, Change, Example, PpoSummary, Written
from palate.downstream.ppo._run import HeldOutLine, PpoRun
from palate.downstream.ppo._settings import PpoSettings
from palate.evaluation import SMALLEST_GROUP
from palate.records import Grade
from palate.report import Finding, warnings_first
from palate.stats import (
    Floats,
    Quantity,
    Resamples,
    cluster_totals,
    independent_clusters,
    paired_differences,
    ratio,
    tested,
)
from palate.views import STRANGERS, ViewSpec

EXAMPLES = 6
LONGEST_EXAMPLE = 2_000
LOST = "the curve lacks {count} of {taken} steps: their lines in steps.jsonl are lost"


def summarise_ppo(run: PpoRun) -> PpoSummary:
    """Every number anew from the folder; no model is needed."""
    settings, split, curve = run.settings, run.split(), run.steps()
    held_out = run.held_out()
    lines = [held_out[item] for item in split.test_items if item in held_out]
    values = _Values(_scores(lines), _rewards(lines), _agreements(lines))
    score, reward, agreement = (_change(lines, one, settings.seed) for one in values)
    before, after = (_written(lines, values, side) for side in (0, 1))
    taken = settings.training.steps if run.policy.exists() else max((line.step for line in curve), default=0)
    lost = [Finding("warning", LOST.format(count=taken - len(curve), taken=taken))] if taken > len(curve) else []
    complete = run.policy.exists() and len(lines) == len(split.test_items)
    seen = run.seen([line.item for line in lines])
    by_view, gains = _by_view(lines, values, settings, seen) if lines else ([], [])
    return PpoSummary(
        run=str(run.folder),
        benchmark=f"{settings.benchmark.name} {settings.benchmark.version}",
        benchmark_title=settings.benchmark.title,
        benchmark_hash=settings.content_hash,
        licence=settings.benchmark.licence,
        policy=settings.policy.name,
        policy_view=settings.policy_view.name,
        reward_model=settings.reward_model.label,
        view=settings.view.name,
        critic=settings.critic.name,
        algorithm=settings.training.algorithm,
        seed=settings.seed,
        steps=settings.training.steps,
        complete=complete,
        train_users=len(split.train_users),
        train_items=len(split.train_items),
        test_users=len(split.test_users),
        test_items=len(split.test_items),
        left_out=split.left_out,
        curve=curve,
        before=before,
        after=after,
        score=score,
        reward=reward,
        agreement=agreement,
        parts=_parts(lines, settings.seed),
        by_view=by_view,
        personal=gains,
        shown=seen.summary(_views(settings)) if lines else [],
        findings=warnings_first(
            [
                *lost,
                *(findings(curve, before, after, score, reward, agreement) if curve else []),
                *(seen.warnings(_views(settings)) if lines else []),
                *(shared_prompts(lines, independent_clusters(lines)) if lines else []),
                *personal_findings(gains),
            ]
        ),
        examples=[_example(line) for line in lines[:: max(1, len(lines) // EXAMPLES)][:EXAMPLES]],
    )


def _views(settings: PpoSettings) -> list[ViewSpec]:
    """What the reward model and the policy see of held-out users, with what that is compared with, each once."""
    own = (settings.view, settings.policy_view)
    beside = [*controls(settings.view, strangers=STRANGERS), *controls(settings.policy_view, strangers=1)]
    return list({view.name: view for view in (*own, *reversed(beside))}.values())


def _by_view(
    lines: Sequence[HeldOutLine], values: _Values, settings: PpoSettings, seen: Seen
) -> tuple[list[ByView], list[PersonalGain]]:
    """The trained policy's score and the reward model's agreement with the critic: own, none and stranger."""
    sides = {
        SCORE: (settings.policy_view, "the trained policy", values.scores[:, 1], _control_scores),
        AGREEMENT: (settings.view, settings.reward_model.label, values.agreements[:, 1], _control_agreements),
    }
    clusters, users = independent_clusters(lines), np.array([line.user_id for line in lines])
    rows: list[ByView] = []
    asked: list[Against] = []
    for measure, (own, who, column, of_control) in sides.items():
        beside = controls(own, strangers=1)
        if not beside:
            continue
        columns = {own.name: column} | {view.name: of_control(lines, view.name) for view in beside}
        columns = {name: one for name, one in columns.items() if not np.isnan(one).all()}
        shows = {own.name: seen.shows(own.name)}
        asked += against(who, measure, columns, [own, *beside], shows)
        both = shows[own.name] & ~np.isnan(np.sum(list(columns.values()), axis=0))
        if both.any():
            counted = {"n": int(both.sum()), "users": len(set(users[both].tolist()))}
            rows += [
                ByView(measure=measure, view=name, value=float(one[both].mean()), **counted)
                for name, one in columns.items()
            ]
    resamples = Resamples(int(clusters.max()) + 1, settings.seed)
    return rows, personal_gains(asked, tested([one.column for one in asked], clusters, users, resamples))


def _control_scores(lines: Sequence[HeldOutLine], view: str) -> Floats:
    """An item each: the mean mark of what the trained policy wrote seeing this view."""
    found = np.full(len(lines), np.nan)
    for place, line in enumerate(lines):
        marks = [mark.score for one in line.written if one.view == view for mark in one.marks]
        known = [mark for mark in marks if mark is not None]
        found[place] = np.mean(known) if known else np.nan
    return found


def _control_agreements(lines: Sequence[HeldOutLine], view: str) -> Floats:
    """An item each: the reward model's agreement with the critic seeing this view; the mean over strangers."""
    found = np.full(len(lines), np.nan)
    for place, line in enumerate(lines):
        own = _sides(line)[1]
        drawn = [
            _agreement(line.marks[own], (one.rating.scores or ())[own]) for one in line.ratings if one.view == view
        ]
        known = [one for one in drawn if not np.isnan(one)]
        found[place] = np.mean(known) if known else np.nan
    return found


class _Values(NamedTuple):
    """Each of them (items, 2), for the untrained and the trained policy; nan where there is no number."""

    scores: Floats
    rewards: Floats
    agreements: Floats


def _sides(line: HeldOutLine) -> tuple[slice, slice]:
    half = len(line.texts) // 2
    return slice(half), slice(half, None)


def _scores(lines: Sequence[HeldOutLine], part: str | None = None) -> Floats:
    """(items, 2): the mean mark, or one part of it, of each policy's texts that have one; nan where none has."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        for side, own in enumerate(_sides(line)):
            marked = [mark for mark in line.marks[own] if mark.score is not None]
            marks = [mark.score if part is None else mark.parts.get(part) for mark in marked]
            known = [mark for mark in marks if mark is not None]
            found[place, side] = np.mean(known) if known else np.nan
    return found


def _rewards(lines: Sequence[HeldOutLine]) -> Floats:
    """(items, 2): the mean reward of each policy's texts; nan where the rating is unscored."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        if line.rating.scores is not None:
            found[place] = [np.mean(line.rating.scores[own]) for own in _sides(line)]
    return found


def _agreements(lines: Sequence[HeldOutLine]) -> Floats:
    """(items, 2): of the pairs of a policy's texts that the critic tells apart, how many the reward orders so too."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        for side, own in enumerate(_sides(line)):
            found[place, side] = _agreement(line.marks[own], (line.rating.scores or ())[own])
    return found


def _agreement(marks: Sequence[Grade], rewards: Sequence[float]) -> float:
    """Of one policy's texts for a prompt; nan without rewards, or where the critic tells no two of them apart."""
    known = [(mark.score, reward) for mark, reward in zip(marks, rewards, strict=False) if mark.score is not None]
    pairs = [np.sign(np.subtract(*two)) for two in combinations(known, 2) if two[0][0] != two[1][0]]
    return float(np.mean([(1 + mark * reward) / 2 for mark, reward in pairs])) if pairs else np.nan


def _parts(lines: Sequence[HeldOutLine], seed: int) -> dict[str, Change]:
    """What became of each part of the marks that enough users have to stand for themselves; the one that changed
    most over all prompts first."""
    having: dict[str, list[HeldOutLine]] = {}
    for line in lines:
        for name in {name: None for mark in line.marks for name in mark.parts}:
            having.setdefault(name, []).append(line)
    found = {}
    for name, own in having.items():
        if len({line.user_id for line in own}) >= SMALLEST_GROUP:  # which spares the work where a part is one user's
            change = _change(own, _scores(own, name), seed)
            if change is not None and change.users >= SMALLEST_GROUP:  # with a number before and after
                found[name] = change
    return dict(sorted(found.items(), key=lambda part: -abs(part[1].difference) * part[1].n))


def _change(lines: Sequence[HeldOutLine], values: Floats, seed: int) -> Change | None:
    """After minus before over the items where both are known, with users resampled."""
    both = np.asarray(~np.isnan(values).any(axis=1))
    if not both.any():
        return None
    clusters = independent_clusters(lines)
    count = int(clusters.max()) + 1
    differences = np.where(both, values[:, 1] - values[:, 0], 0.0)
    totals = cluster_totals(np.stack([differences, both.astype(float)], axis=1), clusters, count)
    [found] = paired_differences([Quantity(totals, ratio)], Resamples(count, seed))
    return Change(
        difference=found.value,
        low=found.low,
        high=found.high,
        p=found.p,
        n=int(both.sum()),
        users=len({line.user_id for line, counted in zip(lines, both.tolist(), strict=True) if counted}),
    )


def _written(lines: Sequence[HeldOutLine], values: _Values, side: int) -> Written | None:
    if not lines:
        return None
    own = [(line, _sides(line)[side]) for line in lines]
    texts = [text for line, part in own for text in line.texts[part]]
    half = len(lines[0].texts) // 2
    return Written(
        score=_mean(values.scores, side),
        reward=_mean(values.rewards, side),
        agreement=_own_mean(values.agreements, side),
        tokens=float(np.mean([count for line, part in own for count in line.tokens[part]])),
        texts=len(texts),
        empty=sum(not text.strip() for text in texts),
        cut_off=sum((place >= half) == bool(side) for line in lines for place in line.unfinished),
        unscored=sum(mark.score is None for line, part in own for mark in line.marks[part]),
    )


def _mean(values: Floats, side: int) -> float | None:
    """Over the items where both policies have a number, so that the two means differ by the change."""
    return _own_mean(values[~np.isnan(values).any(axis=1)], side)


def _own_mean(values: Floats, side: int) -> float | None:
    """Over the items where this policy has a number, whatever the other one has."""
    own = values[~np.isnan(values[:, side]), side]
    return float(own.mean()) if len(own) else None


def _example(line: HeldOutLine) -> Example:
    half = len(line.texts) // 2
    return Example(
        item=line.item,
        prompt=line.prompt[:LONGEST_EXAMPLE],
        before=line.texts[0][:LONGEST_EXAMPLE],
        after=line.texts[half][:LONGEST_EXAMPLE],
        before_score=line.marks[0].score,
        after_score=line.marks[half].score,
    )
