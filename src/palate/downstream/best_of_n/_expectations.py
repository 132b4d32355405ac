"""A run as arrays: for each chooser and each k, what to expect of its choice on each item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from palate.downstream._choice import chosen_probabilities
from palate.downstream._items import ITEMS, Seen
from palate.downstream._samples import SAMPLES, SampleLine
from palate.downstream.best_of_n._results import ChooserKind
from palate.downstream.best_of_n._run import GRADES, RATINGS, BestOfNSettings
from palate.records import Grade, Rating
from palate.runs import Run
from palate.stats import Floats, cluster_totals, independent_clusters


class Chooser(msgspec.Struct, frozen=True, kw_only=True):
    """Who chooses among the samples of which policy view, by what it sees."""

    policy_view: str
    kind: ChooserKind
    name: str
    view: str | None = None


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """By k: for each item the expected score and reward of the choice; nan where the item is left out."""

    scores: dict[int, Floats]
    rewards: dict[int, Floats]
    reasons: dict[str, int]

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which items count."""
        return ~np.isnan(next(iter(self.scores.values())))


class Expectations:
    """The expected choices of every chooser of a run."""

    def __init__(self, run: Run[BestOfNSettings]) -> None:
        self.settings = run.settings
        self._draws = {view.name: view.draws for view in run.settings.views}
        self.items = list(run.read(ITEMS))
        self.samples = run.lines(SAMPLES)
        self._ratings = {line.key: line.rating for line in run.read(RATINGS)}
        self._grades = {key: line.grades for key, line in run.lines(GRADES).items()}
        self.lost = run.lost_items((item.id for item in self.items), (item for _, item in self.samples))
        """Items that the run held once and holds no more."""
        self.seen = Seen(run, [item.id for item in self.items])
        self.clusters = independent_clusters(self.items)
        self.n_clusters = int(self.clusters.max()) + 1
        self.users = np.array([item.user_id for item in self.items])

    @cached_property
    def choosers(self) -> dict[Chooser, Expected]:
        """Reward models first, then what stands beside them, for each policy view."""
        found: dict[Chooser, Expected] = {}
        for policy_view in (view.name for view in self.settings.policy_views):
            for model in self.settings.reward_models:
                for view in self.settings.views:
                    one = Chooser(policy_view=policy_view, kind="model", name=model.label, view=view.name)
                    found[one] = self._expected(one)
            for kind in ("random", "longest", "oracle"):
                one = Chooser(policy_view=policy_view, kind=kind, name=kind)
                found[one] = self._expected(one)
        return found

    def beside(self, one: Chooser, kind: ChooserKind) -> Expected:
        """What `random` or `oracle` does with the same samples."""
        return self.choosers[Chooser(policy_view=one.policy_view, kind=kind, name=kind)]

    def sampled(self, policy_view: str) -> list[SampleLine]:
        """What was drawn, less what failed."""
        lines = [self.samples.get((policy_view, item.id)) for item in self.items]
        return [line for line in lines if line is not None and line.failed is None]

    def policy_saw(self, policy_view: str) -> NDArray[np.bool_]:
        """Of which items the policy saw anything of the user."""
        saw = {line.item for line in self.sampled(policy_view) if line.parts}
        return np.array([item.id in saw for item in self.items])

    @property
    def complete(self) -> bool:
        """Whether every item, sample, rating and mark is there."""
        if self.lost:
            return False
        views = [view.name for view in self.settings.policy_views]
        if any((view, item.id) not in self.samples for view in views for item in self.items):
            return False
        keys = [(view, line.item) for view in views for line in self.sampled(view)]
        asked = [
            (model.label, view.name, draw)
            for model in self.settings.reward_models
            for view in self.settings.views
            for draw in range(view.draws)
        ]
        return all(key in self._grades for key in keys) and all(
            (view, rm, seen, item, draw) in self._ratings for view, item in keys for rm, seen, draw in asked
        )

    def totals(self, *columns: Floats) -> Floats:
        """Columns of items, added up by cluster."""
        return cluster_totals(np.stack(columns, axis=1), self.clusters, self.n_clusters)

    def count_users(self, where: NDArray[np.bool_] | None = None) -> int:
        """How many users these items belong to."""
        return len(np.unique(self.users if where is None else self.users[where]))

    def _expected(self, one: Chooser) -> Expected:
        steps, places = self.settings.steps, {item.id: index for index, item in enumerate(self.items)}
        scores = {k: np.full(len(self.items), np.nan) for k in steps}
        rewards = {k: np.full(len(self.items), np.nan) for k in steps}
        reasons: Counter[str] = Counter()
        for line in self.sampled(one.policy_view):
            marks = _scores(self._grades.get((one.policy_view, line.item)))
            chosen_by = self._rewards(one, line, marks) if isinstance(marks, tuple) else marks
            if isinstance(marks, str) or isinstance(chosen_by, str):
                reasons[str(chosen_by)] += 1
                continue
            for k in steps:  # with several strangers, what to expect of one of them
                each = [(chosen_probabilities(some, k), _standard(some)) for some in chosen_by]
                scores[k][places[line.item]] = np.mean([shares @ np.asarray(marks) for shares, _ in each])
                rewards[k][places[line.item]] = np.mean([shares @ standard for shares, standard in each])
        return Expected(scores=scores, rewards=rewards, reasons=dict(reasons))

    def compared(self, one: Chooser, line: SampleLine) -> tuple[Sequence[float], Sequence[Sequence[float]]]:
        """The critic's scores of an item's samples and the chooser's, once for each stranger; none where unscored."""
        marks = _scores(self._grades.get((one.policy_view, line.item)))
        rewards = self._rewards(one, line, marks) if isinstance(marks, tuple) else marks
        return ((), ()) if isinstance(marks, str) or isinstance(rewards, str) else (marks, rewards)

    def _rewards(self, one: Chooser, line: SampleLine, marks: Sequence[float]) -> list[Sequence[float]] | str:
        """The numbers by which this one chooses, once for each stranger whose view it sees; or why it has none."""
        if one.kind == "oracle":
            return [marks]
        if one.kind == "longest":
            return [[float(len(text)) for text in line.texts]]
        if one.kind == "random":
            return [[0.0] * len(line.texts)]
        return scores_of_draws(
            self._ratings.get((one.policy_view, one.name, one.view or "", line.item, draw))
            for draw in range(self._draws[one.view or ""])
        )


def _scores(grades: Sequence[Grade] | None) -> tuple[float, ...] | str:
    """All grades of an item: without one of them, what a subset is worth cannot be told."""
    if grades is None:
        return "not graded yet"
    unscored = next((grade.unscored for grade in grades if grade.unscored is not None), None)
    if unscored is not None:
        return unscored
    return tuple(grade.score for grade in grades if grade.score is not None)


def scores_of_draws(ratings: Iterable[Rating | None]) -> list[Sequence[float]] | str:
    """The scores of every draw that has some; why there are none, where none has."""
    drawn = list(ratings)
    scored = [rating.scores for rating in drawn if rating is not None and rating.scores is not None]
    if scored:
        return scored
    return next((rating.unscored for rating in drawn if rating is not None and rating.unscored), "not rated yet")


def _standard(rewards: Sequence[float]) -> Floats:
    """In standard deviations from the item's mean: only differences within one ask mean anything."""
    values = np.asarray(rewards, dtype=np.float64)
    spread = values.std()
    return (
        np.zeros_like(values) if spread <= 1e-12 * max(1.0, np.abs(values).max()) else (values - values.mean()) / spread
    )
