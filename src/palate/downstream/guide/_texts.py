"""What was written, as numbers: the critic's scores, the rewards, and how they differ from the policy alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream._items import PromptItem
from palate.downstream._personal import ANYWHERE, SCORE, Against, against
from palate.downstream.guide._policy_accuracy import guided_by
from palate.downstream.guide._results import TextResult
from palate.downstream.guide._run import ALONE, GENERATIONS, GRADES, GeneratedLine, GuideSettings, outcomes
from palate.runs import Run
from palate.stats import Figure, Floats, PairedTest, Resamples, figures

Names = tuple[str, str, str, float]
"""Policy view, reward model, view, weight."""


class GuidedTexts:
    """All texts of a run, in columns of items."""

    def __init__(
        self,
        run: Run[GuideSettings],
        items: Sequence[PromptItem],
        clusters: NDArray[np.intp],
        resamples: Resamples,
    ) -> None:
        self._settings = run.settings
        self._items = items
        self._clusters = clusters
        self._resamples = resamples
        self._written = run.lines(GENERATIONS)
        self._grades = run.lines(GRADES)
        self._outcomes = run.lines(outcomes(run.settings))

    @property
    def complete(self) -> bool:
        """Whether everything is written, rated and graded."""
        settings = self._settings
        keys = [(*names, item.id) for names in self._names() for item in self._items]
        if any(key not in self._written for key in keys):
            return False
        rated = [
            (shown.name, model.label, view.name, item.id)
            for shown in settings.policy_views
            for model in settings.reward_models
            for view in settings.views
            for item in self._items
        ]
        return all(key in self._outcomes for key in rated) and all(
            key in self._grades for key in keys if self._written[key].failed is None
        )

    def over_alone(self) -> dict[Names, Floats]:
        """The critic's score of guided texts less that of the policy's own, for each item."""
        return {
            one: self._scores(one) - self._scores((one[0], ALONE, ALONE, 0.0))
            for one in self._names()
            if one[1] != ALONE
        }

    def personal(self, shows: Mapping[str, NDArray[np.bool_]]) -> Iterator[Against]:
        """What the user's own view brings at each weight."""
        settings = self._settings
        for shown in settings.policy_views:
            seeing = f" (policy sees {shown.name})" if len(settings.policy_views) > 1 else ""
            for model in settings.reward_models:
                for weight in (weight for weight in settings.weights if weight):
                    columns = {
                        view.name: self._scores((shown.name, model.label, view.name, weight)) for view in settings.views
                    }
                    who = f"{guided_by(model.label, weight)}{seeing}"
                    yield from against(who, SCORE, columns, settings.views, shows)

    def results(self, over: Mapping[Names, PairedTest | None]) -> list[TextResult]:
        """The policy alone, then each reward model and view by weight, for each policy view."""
        names = self._names()
        scores = {one: self._scores(one) for one in names}
        gains = {one: self._reward_gain(one) for one in names if one[1] != ALONE}
        columns = [(values, ANYWHERE) for values in (*scores.values(), *gains.values())]
        found = iter(figures(columns, self._clusters, self._resamples))
        score = {one: next(found) for one in scores}
        gain = {one: next(found) for one in gains}
        return [self._result(one, score[one], gain.get(one), over.get(one)) for one in names]

    def _names(self) -> list[Names]:
        settings = self._settings
        found: list[Names] = []
        for shown in settings.policy_views:
            found.append((shown.name, ALONE, ALONE, 0.0))
            found += [
                (shown.name, model.label, view.name, weight)
                for model in settings.reward_models
                for view in settings.views
                for weight in settings.weights
                if weight
            ]
        return found

    def _lines(self, names: Names) -> list[GeneratedLine | None]:
        return [self._written.get((*names, item.id)) for item in self._items]

    def _scores(self, names: Names) -> Floats:
        """The critic's score; nan where it is missing."""
        values = np.full(len(self._items), np.nan)
        for place, item in enumerate(self._items):
            line = self._grades.get((*names, item.id))
            if line is not None and line.grade.score is not None:
                values[place] = line.grade.score
        return values

    def _reward_gain(self, names: Names) -> Floats:
        policy_view, rm, view, weight = names
        at, alone = self._settings.weights.index(weight), self._settings.weights.index(0.0)
        values = np.full(len(self._items), np.nan)
        for place, item in enumerate(self._items):
            line = self._outcomes.get((policy_view, rm, view, item.id))
            if line is not None and line.rating.scores is not None:
                values[place] = line.rating.scores[at] - line.rating.scores[alone]
        return values

    def _result(
        self, names: Names, score: Figure | None, gain: Figure | None, over_alone: PairedTest | None
    ) -> TextResult:
        lines = [line for line in self._lines(names) if line is not None]
        written = [line for line in lines if line.failed is None]
        grades = [(line, self._grades[line.key].grade) for line in written if line.key in self._grades]
        ungraded = [grade.unscored for _, grade in grades if grade.unscored is not None]
        users = {item.id: item.user_id for item in self._items}
        tokens = sum(line.tokens + line.finished for line in written)
        return TextResult(
            policy_view=names[0],
            rm=names[1],
            view=names[2],
            weight=names[3],
            n=len(grades) - len(ungraded),
            users=len({users[line.item] for line, grade in grades if grade.score is not None}),
            failed=len(lines) - len(written),
            ungraded=len(ungraded),
            reasons=dict(Counter([*(line.failed for line in lines if line.failed is not None), *ungraded])),
            empty=sum(not line.text.strip() for line in written),
            unfinished=sum(not line.finished for line in written),
            mean_tokens=float(np.mean([line.tokens for line in written])) if written else None,
            log_probability=sum(line.log_probability for line in written) / tokens if tokens else None,
            score=score,
            reward_gain=gain,
            over_alone=over_alone,
        )
