"""From the raw samples, ratings, grades and slopes of a run to every number that is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream._items import ITEMS, PromptItem, Seen
from palate.downstream._personal import ANYWHERE, shared_prompts
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._results import PolicySamples
from palate.downstream.best_of_n._run import GRADES, RATINGS, SampleGradeLine, SampleRatingLine
from palate.downstream.best_of_n._summary import about_samples, samples_of
from palate.downstream.reach._arithmetic import (
    Direction,
    agreements,
    covariances,
    gains,
    in_deviations,
)
from palate.downstream.reach._results import ReachSummary, RewardReach
from palate.downstream.reach._run import SLOPES, ReachSettings, SlopeLine
from palate.records import PalateError
from palate.report import CLEAR, Finding, commonest, count, figure, figure_interval, named_chance, warnings_first
from palate.runs import LOST, Run, common_fields
from palate.stats import SHARE, Figure, Floats, PairedTest, Resamples, figures, independent_clusters, paired_tests

TESTS = ("reach", "pays", "pays_stranger", "rise_reach", "rise", "rise_stranger", "followed")
"""Of each reward model, as `RewardReach` names them."""


def grade_rows(
    lines: Mapping[tuple[str, str], SampleGradeLine], policy_view: str, ids: Sequence[str | None], samples: int
) -> Floats:
    """(items, texts): the critic's scores; nan where missing."""
    found = np.full((len(ids), samples), np.nan)
    for place, item in enumerate(ids):
        line = lines.get((policy_view, item)) if item else None
        if line is not None:
            found[place] = [np.nan if grade.score is None else grade.score for grade in line.grades]
    return found


def rating_rows(
    lines: Mapping[object, SampleRatingLine],
    policy_view: str,
    rm: str,
    view: str,
    ids: Sequence[str | None],
    samples: int,
) -> Floats:
    """(items, texts): a reward model's scores; nan where missing."""
    found = np.full((len(ids), samples), np.nan)
    for place, item in enumerate(ids):
        line = lines.get((policy_view, rm, view, item, 0)) if item else None
        if line is not None and line.rating.scores is not None:
            found[place] = line.rating.scores
    return found


class ReachArrays:
    """A run as arrays: (items, texts), of the items that count."""

    def __init__(self, run: Run[ReachSettings]) -> None:
        self.settings = settings = run.settings
        self.every = list(run.read(ITEMS))
        if not self.every:
            raise PalateError(f"{run.folder / 'items.jsonl'} holds no items; the run cannot be read")
        samples = run.lines(SAMPLES)
        name = settings.policy_view.name
        self.drawn = [samples[name, item.id] for item in self.every if (name, item.id) in samples]
        self.lost = run.lost_items((item.id for item in self.every), (item for _, item in samples))
        self.seen = Seen(run, [item.id for item in self.every])
        sampled = {line.item for line in self.drawn if line.failed is None}
        shown = dict(zip((item.id for item in self.every), self.seen.shows(settings.view.name).tolist(), strict=True))
        self.items: list[PromptItem] = [item for item in self.every if item.id in sampled and shown[item.id]]
        self.ids = [item.id for item in self.items]
        self._ratings, self._slopes = run.lines(RATINGS), run.lines(SLOPES)
        self._grades = run.lines(GRADES)
        sides = {line.item: line.half for line in self._slopes.values()}
        self.half: NDArray[np.intp] = np.array([sides.get(item, -1) for item in self.ids], dtype=np.intp)
        self.critic = Direction(
            grade_rows(self._grades, name, self.ids, settings.drawing.samples), self._rows(None, None)
        )

    def reward(self, rm: str, view: str) -> Direction:
        """A reward model by what it saw."""
        name, samples = self.settings.policy_view.name, self.settings.drawing.samples
        return Direction(rating_rows(self._ratings, name, rm, view, self.ids, samples), self._rows(rm, view))

    def _rows(self, rm: str | None, view: str | None) -> Floats:
        found = np.full((len(self.ids), self.settings.drawing.samples), np.nan)
        for place, item in enumerate(self.ids):
            line: SlopeLine | None = self._slopes.get((rm, view, item))
            if line is not None:
                found[place] = [np.nan if slope is None else slope for slope in line.slopes]
        return found

    def unscored(self, rm: str) -> dict[str, int]:
        """Why items have no rating, seeing the user or a stranger, with how often."""
        reasons: Counter[str] = Counter()
        for item in self.ids:
            for view in (self.settings.view.name, self.settings.stranger.name):
                line = self._ratings.get((self.settings.policy_view.name, rm, view, item, 0))
                if line is not None and line.rating.unscored is not None:
                    reasons[line.rating.unscored] += 1
                    break
        return dict(reasons)

    @property
    def complete(self) -> bool:
        """Whether everything was sampled, rated, graded and read."""
        if self.lost or len(self.drawn) < len(self.every):
            return False
        views = (self.settings.view.name, self.settings.stranger.name)
        sources = [(None, None), *((model.label, view) for model in self.settings.reward_models for view in views)]
        return all((*source, item) in self._slopes for source in sources for item in self.ids)

    def users(self, side: int) -> int:
        """How many users are in this half."""
        return len({item.user_id for item, own in zip(self.items, self.half.tolist(), strict=True) if own == side})


def summarise_reach(run: Run[ReachSettings]) -> ReachSummary:
    """Every number, recomputed from the folder; no model is needed."""
    measured, settings = ReachArrays(run), run.settings
    labels = [model.label for model in settings.reward_models]
    columns = [gains(measured.half, measured.critic, measured.critic)]
    columns += [column for label in labels for column in reach_columns(measured, label)]
    tests, agreed = _tested(measured, columns, labels)
    models = [
        RewardReach(
            rm=label,
            **dict(zip(TESTS, tests[1 + place * len(TESTS) :], strict=False)),
            agreement=agreed[place],
            left_out=sum((reasons := measured.unscored(label)).values()),
            reasons=reasons,
        )
        for place, label in enumerate(labels)
    ]
    samples = samples_of(measured.drawn, settings.policy_view.name, bool(settings.policy_view.pieces))
    return ReachSummary(
        **common_fields(
            run,
            items=len(measured.every),
            users=len({item.user_id for item in measured.every}),
            complete=measured.complete,
            findings=warnings_first(_findings(measured, samples, models, tests[0])),
        ),
        policy=settings.policy.name,
        policy_view=settings.policy_view.name,
        view=settings.view.name,
        stranger=settings.stranger.name,
        critic=settings.critic.name,
        drawn=settings.drawing.samples,
        temperature=settings.drawing.temperature,
        top_p=settings.drawing.top_p,
        tokens=settings.drawing.tokens,
        sketch=settings.sketch,
        counted=len(measured.items),
        halves=(measured.users(0), measured.users(1)),
        ungraded=int(np.isnan(measured.critic.scores).sum()),
        unread=int((np.isnan(measured.critic.slopes) & (measured.half >= 0)[:, None]).sum()),
        samples=samples,
        critic_pays=tests[0],
        models=models,
        shown=measured.seen.summary([settings.policy_view, settings.view, settings.stranger]),
    )


def reach_columns(measured: ReachArrays, rm: str) -> Iterator[Floats]:
    """A value for each item, in the order of `TESTS`."""
    own, stranger = (measured.reward(rm, view.name) for view in (measured.settings.view, measured.settings.stranger))
    pays, other_pays = (gains(measured.half, along, measured.critic, own) for along in (own, stranger))
    rise, other_rise = (in_deviations(gains(measured.half, along, own, own), own.scores) for along in (own, stranger))
    yield from (pays - other_pays, pays, other_pays, rise - other_rise, rise, other_rise)
    followed = covariances(own.scores, measured.critic.scores)
    yield in_deviations(followed, own.scores)


def _tested(
    measured: ReachArrays, columns: Sequence[Floats], labels: Sequence[str]
) -> tuple[list[PairedTest | None], list[Figure | None]]:
    if not measured.items:
        return [None] * len(columns), [None] * len(labels)
    clusters = independent_clusters(measured.items)
    resamples = Resamples(int(clusters.max()) + 1, measured.settings.seed)
    users = np.array([item.user_id for item in measured.items])
    tests = paired_tests([(column, ANYWHERE) for column in columns], clusters, users, resamples)
    shares = [
        (agreements(measured.reward(label, measured.settings.view.name).scores, measured.critic.scores), SHARE)
        for label in labels
    ]
    return tests, figures(shares, clusters, resamples)


def _findings(
    measured: ReachArrays, samples: PolicySamples, models: Sequence[RewardReach], critic: PairedTest | None
) -> Iterator[Finding]:
    settings = measured.settings
    yield from about_samples([samples])
    yield from measured.seen.shortfalls([settings.view, settings.stranger])
    yield from shared_prompts(measured.every, independent_clusters(measured.every))
    if hidden := len([line for line in measured.drawn if line.failed is None]) - len(measured.items):
        yield Finding("note", f"{count(hidden, 'item')} left out, since {settings.view.name} shows nothing of the user")
    if settings.drawing.top_p < 1:
        yield Finding(
            "warning",
            f"texts were drawn with top_p {settings.drawing.top_p:g}: a policy in training draws from all tokens, so "
            "this gradient is not quite the one it would follow; use --top-p 1",
        )
    ungraded = np.isnan(measured.critic.scores)
    if ungraded.any():
        yield Finding("warning", f"{count(int(ungraded.sum()), 'text')} left out, without a grade of the critic")
    for one in models:
        if one.left_out:
            what = f"{one.rm}: {count(one.left_out, 'item')} left out, unscored; mostly: {commonest(one.reasons)}"
            yield Finding("warning", what)
    if critic is not None and critic.q >= CLEAR:
        yield Finding(
            "warning",
            f"even along the critic's own gradient its score does not clearly rise ({_with_interval(critic)}): there "
            "are too few people or texts to say of a reward that it has no reach",
        )
    yield from map(_verdict, models)
    if measured.lost:
        yield Finding("warning", LOST.format(count=measured.lost))


def _verdict(one: RewardReach) -> Finding:
    """What training with a reward would bring, in a sentence."""
    if one.reach is None or one.pays is None or one.pays_stranger is None:
        return Finding("warning", f"{one.rm}: no gradient; it rates all texts of a prompt the same, or none of them")
    own, others = (figure(part.difference, sign=True) for part in (one.pays, one.pays_stranger))
    parts = f"{own} and with strangers' rewards {others} critic points per root-nat"
    said = f"{_with_interval(one.reach)}, {named_chance('q', one.reach.q)}; {parts}"
    if one.reach.q >= CLEAR:
        return Finding(
            "note",
            f"{one.rm}: no clear sign that a policy trained with it would move towards what these people want: {said}",
        )
    if one.reach.difference < 0:
        return Finding(
            "warning", f"{one.rm}: a policy trained with it would move away from what these people want: {said}"
        )
    return Finding("good", f"{one.rm}: a policy trained with it would move towards what these people want: {said}")


def _with_interval(one: PairedTest) -> str:
    limits = "no interval" if one.low is None else f"95% {figure_interval(one.low, one.high, sign=True)}"
    return f"{figure(one.difference, sign=True)} ({limits})"
