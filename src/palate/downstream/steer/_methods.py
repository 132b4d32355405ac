"""The parts of a table as columns: for each method and measure one value an item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from palate.downstream._choice import chosen_probabilities
from palate.downstream._items import ITEMS, PromptItem, Seen
from palate.downstream._personal import Against, against
from palate.downstream._samples import SAMPLES
from palate.downstream.best_of_n._expectations import scores_of_draws
from palate.downstream.best_of_n._run import GRADES as SAMPLE_GRADES
from palate.downstream.best_of_n._run import RATINGS, BestOfNSettings
from palate.downstream.guide._policy_accuracy import GuidedPairs
from palate.downstream.guide._run import GRADES, written_key
from palate.downstream.steer._results import MEASURES, Decoding, Measure, MethodKind
from palate.downstream.steer._run import InContext, SteerSettings, guided_part, rated_part, sampled_part
from palate.evaluation import Ratings
from palate.records import Grade
from palate.runs import Run
from palate.stats import Floats
from palate.views import ViewSpec

LIKENESS: tuple[Measure, ...] = ("rouge1", "rougeL", "embedding")
"""What the critic says of a text, by measure."""
Columns = dict[Measure, Floats]
DECODINGS: tuple[Decoding, ...] = ("sampled", "greedy")


class SteerMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One method with its columns; nan where an item has no value."""

    label: str
    kind: MethodKind
    name: str
    decoding: Decoding
    columns: Columns
    view: str | None = None
    """What the reward model sees, or the policy in context."""
    control: bool = False
    """Whether it is there to be compared with a method that sees the user's own view."""


class Parts:
    """Reads the runs of a table and sets everything in the order of the same items."""

    def __init__(self, run: Run[SteerSettings]) -> None:
        self._run = run
        self._best = sampled_part(run, run.settings.best_of_n)
        self._guided = guided_part(run)
        self._rated: dict[str, Ratings] = {}
        self.items: Sequence[PromptItem] = list(self._best.read(ITEMS))
        self.seen = Seen(self._best, [item.id for item in self.items])
        self._places = {item.id: place for place, item in enumerate(self.items)}

    def methods(self) -> list[SteerMethod]:
        """The policy alone first, then in-context learning, best-of-N with its oracle, and guided decoding."""
        return [*self._alone(), *self._in_context(), *self._best_of_n(), *self._guided_by()]

    def _alone(self) -> list[SteerMethod]:
        policy: Columns = {"policy": self._own_accuracy(self._run.settings.likelihood, "none")}
        sampled, greedy = policy | _chosen(self._best, "none", self._places), policy | self._text("", "", 0.0)
        return [
            SteerMethod(
                label="policy alone, sampled", kind="none", name="", decoding="sampled", columns=_known(sampled)
            ),
            SteerMethod(label="policy alone, greedy", kind="none", name="", decoding="greedy", columns=_known(greedy)),
        ]

    def _in_context(self) -> list[SteerMethod]:
        found = []
        for one in self._run.settings.in_context:
            policy: Columns = {"policy": self._own_accuracy(one.likelihood, one.view)}
            for decoding in DECODINGS:
                columns = policy | _chosen(self._in_context_run(one, decoding), one.view, self._places)
                found.append(
                    SteerMethod(
                        label=f"in context {one.name}, {decoding}",
                        kind="in-context",
                        name=one.name,
                        decoding=decoding,
                        columns=_known(columns),
                        view=one.view,
                        control=one.spec.whose != "own",
                    )
                )
        return found

    def _in_context_run(self, one: InContext, decoding: Decoding) -> Run[BestOfNSettings]:
        return sampled_part(self._run, one.greedy if decoding == "greedy" else one.sampled)

    def _best_of_n(self) -> list[SteerMethod]:
        settings = self._best.settings
        n = settings.drawing.samples
        found = []
        for model in settings.reward_models:
            for view in settings.views:
                columns: Columns = {"reward": self._reward_accuracy(model.label, view.name)}
                columns |= _chosen(self._best, "none", self._places, rm=model.label, view=view)
                found.append(self._by_model("best-of-n", f"best of {n} by", model.label, "sampled", view, columns))
        oracle = _known(_chosen(self._best, "none", self._places, oracle=True))
        label = f"best of {n} by the critic (oracle)"
        return [*found, SteerMethod(label=label, kind="oracle", name="", decoding="sampled", columns=oracle)]

    def _guided_by(self) -> list[SteerMethod]:
        weight = self._run.settings.weight
        items = list(self._guided.read(ITEMS))
        pairs = GuidedPairs(self._guided, items, [0.0, weight])
        found = []
        for model in self._guided.settings.reward_models:
            for view in self._guided.settings.views:
                right = pairs.credits("none", model.label, view.name).normalised[weight]
                reward = self._reward_accuracy(model.label, view.name)
                columns: Columns = {"reward": reward, "policy": self._placed(items, right)}
                columns |= self._text(model.label, view.name, weight)
                found.append(self._by_model("guided", "guided by", model.label, "greedy", view, columns))
        return found

    def _by_model(
        self, kind: MethodKind, how: str, name: str, decoding: Decoding, view: ViewSpec, columns: Columns
    ) -> SteerMethod:
        """Where reward models see different things, the label says what."""
        views = self._run.settings.views
        beside_own = any(other.is_profile for other in views)
        return SteerMethod(
            label=f"{how} {name}" + (f", seeing {view.name}" if len(views) > 1 else ""),
            kind=kind,
            name=name,
            decoding=decoding,
            columns=_known(columns),
            view=view.name,
            control=beside_own and not view.is_profile,
        )

    def personal(self, methods: Sequence[SteerMethod]) -> Iterator[Against]:
        """What the user's own view brings, to choosing, to guiding and to the policy itself."""
        yield from self._personal_by_model(methods)
        yield from self._personal_in_context(methods)

    def _personal_by_model(self, methods: Sequence[SteerMethod]) -> Iterator[Against]:
        settings = self._run.settings
        shows = {view.name: self.seen.shows(view.name) for view in settings.views}
        kinds: dict[MethodKind, tuple[Measure, ...]] = {
            "best-of-n": ("reward", "rouge1"),
            "guided": ("policy", "rouge1"),
        }
        for kind, measures in kinds.items():
            for name in dict.fromkeys(method.name for method in methods if method.kind == kind):
                own = [method for method in methods if (method.kind, method.name) == (kind, name)]
                who = own[0].label.partition(", seeing ")[0]
                for measure in measures:
                    columns = {one.view or "": one.columns[measure] for one in own if measure in one.columns}
                    whose = name if measure == "reward" else who
                    yield from against(whose, MEASURES[measure], columns, settings.views, shows)

    def _personal_in_context(self, methods: Sequence[SteerMethod]) -> Iterator[Against]:
        settings = self._run.settings
        rows = {(method.kind, method.name, method.decoding): method for method in methods}
        for own in (one for one in settings.in_context if one.spec.is_profile):
            others = [one for one in settings.in_context if (one.spec.of, one.retriever) == (own.view, own.retriever)]
            views = [ViewSpec(name="none"), own.spec, *(other.spec for other in others)]
            for decoding in DECODINGS:
                shown = {one.view: rows["in-context", one.name, decoding] for one in (own, *others)}
                saw = {line.item for line in self._in_context_run(own, decoding).read(SAMPLES) if line.parts}
                where = {own.view: np.array([item.id in saw for item in self.items])}
                shown["none"] = rows["none", "", decoding]
                both: tuple[Measure, ...] = ("rouge1", "policy")
                for measure in both if decoding == "sampled" else both[:1]:
                    columns = {view: row.columns[measure] for view, row in shown.items() if measure in row.columns}
                    yield from against(shown[own.view].label, MEASURES[measure], columns, views, where)

    def _placed(self, items: Sequence[msgspec.Struct], values: Floats) -> Floats:
        """Values of another run's items, in the order of the table's."""
        found = np.full(len(self.items), np.nan)
        for item, value in zip(items, values, strict=True):
            place = self._places.get(str(getattr(item, "id", "")))
            if place is not None:
                found[place] = value
        return found

    def _reward_accuracy(self, label: str, view: str) -> Floats:
        return self._credits(self._run.settings.reward, label, view)

    def _own_accuracy(self, folder: str, view: str) -> Floats:
        return self._credits(folder, rated_part(self._run, folder).settings.models[0].label, view)

    def _credits(self, folder: str, label: str, view: str) -> Floats:
        if folder not in self._rated:
            self._rated[folder] = Ratings.of(rated_part(self._run, folder))
        ratings = self._rated[folder]
        return self._placed(ratings.items, ratings.credits[label, view])

    def _text(self, rm: str, view: str, weight: float) -> Columns:
        """What the critic says of guided texts."""
        grades = self._guided.lines(GRADES)
        found: Columns = {measure: np.full(len(self.items), np.nan) for measure in LIKENESS}
        for id, place in self._places.items():
            line = grades.get(written_key("none", rm, view, weight, id))
            for measure in LIKENESS:
                if line is not None and measure in line.grade.parts:
                    found[measure][place] = line.grade.parts[measure]
        return found


def _chosen(
    run: Run[BestOfNSettings],
    policy_view: str,
    places: dict[str, int],
    *,
    rm: str = "",
    view: ViewSpec | None = None,
    oracle: bool = False,
) -> Columns:
    """What to expect of the text that a chooser takes, or of any text where nobody chooses."""
    samples, grades = run.lines(SAMPLES), run.lines(SAMPLE_GRADES)
    ratings = {line.key: line.rating for line in run.read(RATINGS)}
    found: Columns = {measure: np.full(len(places), np.nan) for measure in LIKENESS}
    for id, place in places.items():
        graded = grades.get((policy_view, id))
        if graded is None or (policy_view, id) not in samples:
            continue
        marked = graded.grades
        scores: list[Sequence[float]] | str = [[0.0] * len(marked)]
        if view is not None:
            keys = [(policy_view, rm, view.name, id, draw) for draw in range(view.draws)]
            scores = scores_of_draws(ratings.get(key) for key in keys)
        elif oracle:
            scores = _scores(marked)
        if isinstance(scores, str):
            continue
        # With several strangers, what to expect of one of them.
        shares = np.mean([chosen_probabilities(some, len(marked)) for some in scores], axis=0)
        for measure in LIKENESS:
            values = [grade.parts.get(measure) for grade in marked]
            if None not in values:
                found[measure][place] = float(shares @ np.asarray(values, dtype=np.float64))
    return found


def _scores(grades: Sequence[Grade]) -> list[Sequence[float]] | str:
    found = [grade.score for grade in grades if grade.score is not None]
    return [found] if len(found) == len(grades) else "a grade is missing"


def _known(columns: Columns) -> Columns:
    """Only columns that hold something."""
    measures: tuple[Measure, ...] = ("reward", "policy", *LIKENESS)
    return {one: columns[one] for one in measures if one in columns and not np.isnan(columns[one]).all()}
