"""From the raw files of a training run to every number that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np

from palate.downstream._items import ITEMS, PromptItem, Seen
from palate.downstream._personal import (
    AGREEMENT,
    SCORE,
    Against,
    PersonalGain,
    Range,
    against,
    controls,
    personal_findings,
    personal_gains,
    shared_prompts,
)
from palate.downstream.ppo._results import ByView, Change, PolicyTexts, PpoSummary, StepLine
from palate.downstream.ppo._run import (
    HELD_OUT,
    HeldOutLine,
    PpoSettings,
    held_out_prompts,
    policy_folder,
    training_curve,
)
from palate.evaluation import SMALLEST_GROUP
from palate.records import Grade
from palate.report import Finding, warnings_first
from palate.runs import LOST, Run, common_fields
from palate.stats import ANYWHERE, GAIN, Floats, Resamples, independent_clusters, paired_tests
from palate.views import STRANGERS, ViewSpec

STEPS_LOST = "the curve lacks {count} of {taken} steps: their lines in steps.jsonl are lost"


def summarise_ppo(run: Run[PpoSettings]) -> PpoSummary:
    """Every number, recomputed from the folder; no model is needed."""
    settings, curve, every = run.settings, training_curve(run), list(run.read(ITEMS))
    to_train, to_test = ([item for item in every if item.held_out == held_out] for held_out in (False, True))
    items, lines = held_out_prompts(run)
    values = _Values(_scores(lines), _rewards(lines), _agreements(lines))
    score, reward = (_change(items, one, settings.seed) for one in (values.scores, values.rewards))
    agreement = _change(items, values.agreements, settings.seed, GAIN)
    before, after = (_written(lines, values, side) for side in (0, 1))
    finished = bool(lines) or policy_folder(run).exists()
    taken = settings.training.steps if finished else max((line.step for line in curve), default=0)
    lost_items = run.lost_items((item.id for item in every), run.lines(HELD_OUT))
    lost = [Finding("warning", LOST.format(count=lost_items))] if lost_items else []
    if taken > len(curve):
        lost.append(Finding("warning", STEPS_LOST.format(count=taken - len(curve), taken=taken)))
    seen = Seen(run, [item.id for item in items])
    by_view, gains = _by_view(items, lines, values, settings, seen) if lines else ([], [])
    return PpoSummary(
        **common_fields(
            run,
            items=len(every),
            users=_users(every),
            complete=finished and len(lines) == len(to_test) and not lost_items,
            findings=warnings_first(
                [
                    *lost,
                    *(findings(curve, before, after, score, reward, agreement) if curve else []),
                    *(seen.warnings(_views(settings)) if lines else []),
                    *(shared_prompts(items, independent_clusters(items)) if lines else []),
                    *personal_findings(gains),
                ]
            ),
        ),
        policy=settings.policy.name,
        policy_view=settings.policy_view.name,
        reward_model=settings.reward_model.label,
        view=settings.view.name,
        critic=settings.critic.name,
        algorithm=settings.training.algorithm,
        steps=settings.training.steps,
        train_users=_users(to_train),
        train_items=len(to_train),
        test_users=_users(to_test),
        test_items=len(to_test),
        left_out=settings.left_out,
        curve=curve,
        before=before,
        after=after,
        score=score,
        reward=reward,
        agreement=agreement,
        parts=_parts(items, lines, settings.seed),
        by_view=by_view,
        personal=gains,
        shown=seen.summary(_views(settings)) if lines else [],
    )


def _users(items: Sequence[PromptItem]) -> int:
    return len({item.user_id for item in items})


def _views(settings: PpoSettings) -> list[ViewSpec]:
    """What the reward model and the policy see of held-out users, with what that is compared with, each once."""
    own = (settings.view, settings.policy_view)
    beside = [*controls(settings.view, strangers=STRANGERS), *controls(settings.policy_view, strangers=1)]
    return list({view.name: view for view in (*own, *reversed(beside))}.values())


def _by_view(
    items: Sequence[PromptItem], lines: Sequence[HeldOutLine], values: _Values, settings: PpoSettings, seen: Seen
) -> tuple[list[ByView], list[PersonalGain]]:
    """The trained policy's score and the reward model's agreement with the critic: own, none and stranger."""
    sides = {
        SCORE: (settings.policy_view, "the trained policy", values.scores[:, 1], _control_scores),
        AGREEMENT: (settings.view, settings.reward_model.label, values.agreements[:, 1], _control_agreements),
    }
    clusters, users = independent_clusters(items), np.array([item.user_id for item in items])
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
    return rows, personal_gains(asked, paired_tests([one.column for one in asked], clusters, users, resamples))


def _control_scores(lines: Sequence[HeldOutLine], view: str) -> Floats:
    """An item each: the mean grade of what the trained policy wrote seeing this view."""
    found = np.full(len(lines), np.nan)
    for place, line in enumerate(lines):
        scores = [grade.score for one in line.written if one.view == view for grade in one.grades]
        known = [score for score in scores if score is not None]
        found[place] = np.mean(known) if known else np.nan
    return found


def _control_agreements(lines: Sequence[HeldOutLine], view: str) -> Floats:
    """An item each: the reward model's agreement with the critic seeing this view; the mean over strangers."""
    found = np.full(len(lines), np.nan)
    for place, line in enumerate(lines):
        own = line.sides[1]
        drawn = [
            _agreement(line.grades[own], (one.rating.scores or ())[own]) for one in line.ratings if one.view == view
        ]
        known = [one for one in drawn if not np.isnan(one)]
        found[place] = np.mean(known) if known else np.nan
    return found


class _Values(NamedTuple):
    """Each of them (items, 2), for the untrained and the trained policy; nan where there is no number."""

    scores: Floats
    rewards: Floats
    agreements: Floats


def _scores(lines: Sequence[HeldOutLine], part: str | None = None) -> Floats:
    """(items, 2): the mean grade, or one part of it, of each policy's texts that have one; nan where none has."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        for side, own in enumerate(line.sides):
            graded = [grade for grade in line.grades[own] if grade.score is not None]
            scores = [grade.score if part is None else grade.parts.get(part) for grade in graded]
            known = [score for score in scores if score is not None]
            found[place, side] = np.mean(known) if known else np.nan
    return found


def _rewards(lines: Sequence[HeldOutLine]) -> Floats:
    """(items, 2): the mean reward of each policy's texts; nan where the rating is unscored."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        if line.rating.scores is not None:
            found[place] = [np.mean(line.rating.scores[own]) for own in line.sides]
    return found


def _agreements(lines: Sequence[HeldOutLine]) -> Floats:
    """(items, 2): of the pairs of a policy's texts that the critic tells apart, how many the reward orders so too."""
    found = np.full((len(lines), 2), np.nan)
    for place, line in enumerate(lines):
        for side, own in enumerate(line.sides):
            found[place, side] = _agreement(line.grades[own], (line.rating.scores or ())[own])
    return found


def _agreement(grades: Sequence[Grade], rewards: Sequence[float]) -> float:
    """Of one policy's texts for a prompt; nan without rewards, or where the critic tells no two of them apart."""
    known = [(grade.score, reward) for grade, reward in zip(grades, rewards, strict=False) if grade.score is not None]
    pairs = [np.sign(np.subtract(*two)) for two in combinations(known, 2) if two[0][0] != two[1][0]]
    return float(np.mean([(1 + score * reward) / 2 for score, reward in pairs])) if pairs else np.nan


def _parts(items: Sequence[PromptItem], lines: Sequence[HeldOutLine], seed: int) -> dict[str, Change]:
    """What became of each part of the grades that enough users have to stand for themselves; the one that changed
    most over all prompts first."""
    having: dict[str, list[tuple[PromptItem, HeldOutLine]]] = {}
    for item, line in zip(items, lines, strict=True):
        for name in {name: None for grade in line.grades for name in grade.parts}:
            having.setdefault(name, []).append((item, line))
    found = {}
    for name, own in having.items():
        whose = [item for item, _ in own]
        if _users(whose) >= SMALLEST_GROUP:  # which spares the work where a part is one user's
            change = _change(whose, _scores([line for _, line in own], name), seed)
            if change is not None and change.users >= SMALLEST_GROUP:  # with a number before and after
                found[name] = change
    return dict(sorted(found.items(), key=lambda part: -abs(part[1].difference) * part[1].n))


def _change(items: Sequence[PromptItem], values: Floats, seed: int, within: Range = ANYWHERE) -> Change | None:
    """After minus before over the items where both are known, with users resampled."""
    if not len(values):
        return None
    clusters, users = independent_clusters(items), np.array([item.user_id for item in items])
    resamples = Resamples(int(clusters.max()) + 1, seed)
    [found] = paired_tests([(values[:, 1] - values[:, 0], within)], clusters, users, resamples)
    return Change(**msgspec.structs.asdict(found)) if found is not None else None


def _written(lines: Sequence[HeldOutLine], values: _Values, side: int) -> PolicyTexts | None:
    if not lines:
        return None
    own = [(line, line.sides[side]) for line in lines]
    texts = [text for line, part in own for text in line.texts[part]]
    half = len(lines[0].texts) // 2
    return PolicyTexts(
        score=_mean(values.scores, side),
        reward=_mean(values.rewards, side),
        agreement=_own_mean(values.agreements, side),
        tokens=float(np.mean([count for line, part in own for count in line.tokens[part]])),
        texts=len(texts),
        empty=sum(not text.strip() for text in texts),
        truncated=sum((place >= half) == bool(side) for line in lines for place in line.unfinished),
        unscored=sum(grade.score is None for line, part in own for grade in line.grades[part]),
    )


def _mean(values: Floats, side: int) -> float | None:
    """Over the items where both policies have a number, so that the two means differ by the change."""
    return _own_mean(values[~np.isnan(values).any(axis=1)], side)


def _own_mean(values: Floats, side: int) -> float | None:
    """Over the items where this policy has a number, whatever the other one has."""
    own = values[~np.isnan(values[:, side]), side]
    return float(own.mean()) if len(own) else None


COLLAPSED = 0.5
"""Entropy below this part of what it was."""
RUN_AWAY = 1.5
"""Length beyond this many times what it was, or below its inverse."""
TRUNCATED = 0.3
"""So much more of the texts being cut off is running away too: there is no room left to grow."""
FEWEST_STEPS = 10


def warnings_of(curve: Sequence[StepLine]) -> list[str]:
    """Where the reward rises for a wrong reason: the last fifth of the steps against the first."""
    if len(curve) < FEWEST_STEPS:
        return []
    some = len(curve) // 5
    first, last = curve[:some], curve[-some:]

    def means(name: str) -> tuple[float, float]:
        return tuple(float(np.mean([getattr(line, name) for line in part])) for part in (first, last))  # type: ignore[return-value]

    entropy, length, truncated = (means(name) for name in ("entropy", "length", "truncated"))
    found = []
    if _rises([line.reward for line in first], [line.reward for line in last]):
        if entropy[1] < COLLAPSED * entropy[0]:
            found.append(
                f"reward rises while entropy collapses, from {entropy[0]:.2f} to {entropy[1]:.2f} nats a token: the "
                "policy keeps writing the same text. Raise --kl or lower --learning-rate"
            )
        if length[1] > RUN_AWAY * length[0] or truncated[1] > truncated[0] + TRUNCATED:
            found.append(
                f"reward rises while length runs away, from {length[0]:.0f} to {length[1]:.0f} tokens with "
                f"{truncated[1]:.0%} cut off: the reward model may pay for length"
            )
        elif length[1] < length[0] / RUN_AWAY:
            found.append(
                f"reward rises while length shrinks, from {length[0]:.0f} to {length[1]:.0f} tokens: the reward model "
                "may pay for saying little"
            )
    return found


def _rises(first: Sequence[float], last: Sequence[float]) -> bool:
    """By more than twice the error of the two means, so that the noise of steps is not taken for a rise."""
    error = np.sqrt((np.var(first) + np.var(last)) / len(first))
    return bool(np.mean(last) - np.mean(first) > 2 * error)


def findings(
    curve: Sequence[StepLine],
    before: PolicyTexts | None,
    after: PolicyTexts | None,
    score: Change | None,
    reward: Change | None,
    agreement: Change | None = None,
) -> list[Finding]:
    """Warnings first, then what held-out users got."""
    found = [Finding("warning", text) for text in warnings_of(curve)]
    left_out = sum(line.left_out for line in curve)
    if left_out:
        found.append(Finding("note", f"{left_out} unscored texts were left out of training"))
    if before and after and after.empty == after.texts:
        found.append(Finding("warning", "every text of the trained policy is empty: it ends before it says anything"))
    elif before and after and after.empty > before.empty:
        text = f"the trained policy leaves {after.empty} of {after.texts} texts empty, the untrained one {before.empty}"
        found.append(Finding("warning", text))
    if score is None:
        return found
    clear = score.low is not None and score.high is not None and (score.low > 0 or score.high < 0)
    better = score.difference > 0
    if clear and better:
        found.append(Finding("good", "held-out users are served better than by the untrained policy"))
    elif clear:
        found.append(Finding("warning", "held-out users are served worse than by the untrained policy"))
    else:
        found.append(Finding("note", "this run cannot tell whether held-out users are served better"))
    if reward is not None and reward.low is not None and reward.low <= 0 and not (clear and better):
        text = (
            "training did not clearly raise even the reward of held-out users' texts, so what this reward model would "
            "teach is open: train with more --steps or another --learning-rate before you say that it teaches nothing"
        )
        found.append(Finding("note", text))
    elif reward is not None and reward.low is not None and not (clear and better):
        text = "the reward of held-out users' texts rose, and the critic's score did not clearly follow"
        found.append(Finding("note" if better else "warning", text))
    if agreement is not None and agreement.high is not None and agreement.high < 0:
        text = (
            "reward model and critic agree less often on the trained policy's texts than on the untrained one's: "
            "training may have led to texts that the reward model misjudges"
        )
        found.append(Finding("note" if clear and better else "warning", text))
    return found
