"""The parts of a table as columns: for each method and measure one value an item."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from palate.downstream._best_of_n._run import BonRun, PromptItem
from palate.downstream._choice import chosen_probabilities
from palate.downstream._critic import Mark
from palate.downstream._guide._credits import Pairs
from palate.downstream._guide._run import written_key
from palate.downstream._steer._results import Decoding, Measure, MethodKind
from palate.downstream._steer._run import SteerRun
from palate.evaluate import Floats, Ratings, Run

LIKENESS: tuple[Measure, ...] = ("rouge1", "rougeL", "embedding")
"""What the critic says of a text, by measure."""
Columns = dict[Measure, Floats]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method with its columns; nan where an item has no value."""

    label: str
    kind: MethodKind
    name: str
    decoding: Decoding
    columns: Columns


class Parts:
    """Reads the runs of a table and sets everything in the order of the same items."""

    def __init__(self, run: SteerRun) -> None:
        self._run = run
        self._best = run.best_of(run.settings.best_of_n)
        self._guided = run.guided()
        self.items: Sequence[PromptItem] = self._best.items()
        self._places = {item.id: place for place, item in enumerate(self.items)}

    def methods(self) -> list[Method]:
        """The policy alone first, then in-context learning, best-of-N with its oracle, and guided decoding."""
        return [*self._alone(), *self._in_context(), *self._best_of_n(), *self._guided_by()]

    def _alone(self) -> list[Method]:
        policy: Columns = {"policy": self._own_accuracy(self._run.settings.likelihood, "none")}
        sampled, greedy = policy | _chosen(self._best, "none", self._places), policy | self._text("", "", 0.0)
        return [
            Method(label="policy alone, sampled", kind="none", name="", decoding="sampled", columns=_known(sampled)),
            Method(label="policy alone, greedy", kind="none", name="", decoding="greedy", columns=_known(greedy)),
        ]

    def _in_context(self) -> list[Method]:
        found = []
        for one in self._run.settings.in_context:
            policy: Columns = {"policy": self._own_accuracy(one.likelihood, one.view)}
            for decoding, folder in (("sampled", one.sampled), ("greedy", one.greedy)):
                columns = policy | _chosen(self._run.best_of(folder), one.view, self._places)
                found.append(_in_context_method(one.name, "greedy" if decoding == "greedy" else "sampled", columns))
        return found

    def _best_of_n(self) -> list[Method]:
        settings = self._best.settings
        n, view = settings.drawing.samples, self._run.settings.view
        found = []
        for model in settings.reward_models:
            columns: Columns = {"reward": self._reward_accuracy(model.label)}
            columns |= _chosen(self._best, "none", self._places, rm=model.label, view=view)
            label = f"best of {n} by {model.label}"
            found.append(
                Method(label=label, kind="best-of-n", name=model.label, decoding="sampled", columns=_known(columns))
            )
        oracle = _known(_chosen(self._best, "none", self._places, oracle=True))
        label = f"best of {n} by the critic (oracle)"
        return [*found, Method(label=label, kind="oracle", name="", decoding="sampled", columns=oracle)]

    def _guided_by(self) -> list[Method]:
        weight, view = self._run.settings.weight, self._run.settings.view
        items = self._guided.items()
        pairs = Pairs(self._guided, items, [0.0, weight])
        found = []
        for model in self._guided.settings.reward_models:
            right = pairs.credits("none", model.label, view).normalised[weight]
            columns: Columns = {"reward": self._reward_accuracy(model.label), "policy": self._placed(items, right)}
            columns |= self._text(model.label, view, weight)
            label = f"guided by {model.label}"
            found.append(
                Method(label=label, kind="guided", name=model.label, decoding="greedy", columns=_known(columns))
            )
        return found

    def _placed(self, items: Sequence[msgspec.Struct], values: Floats) -> Floats:
        """Values of another run's items, in the order of the table's."""
        found = np.full(len(self.items), np.nan)
        for item, value in zip(items, values, strict=True):
            place = self._places.get(str(getattr(item, "id", "")))
            if place is not None:
                found[place] = value
        return found

    def _reward_accuracy(self, label: str) -> Floats:
        return self._credits(self._run.rated(self._run.settings.reward), label, self._run.settings.view)

    def _own_accuracy(self, folder: str, view: str) -> Floats:
        run = self._run.rated(folder)
        return self._credits(run, run.settings.models[0].label, view)

    def _credits(self, run: Run, label: str, view: str) -> Floats:
        ratings = Ratings.of(run)
        return self._placed(ratings.items, ratings.credits[label, view])

    def _text(self, rm: str, view: str, weight: float) -> Columns:
        """What the critic says of guided texts."""
        marks = self._guided.marks()
        found: Columns = {measure: np.full(len(self.items), np.nan) for measure in LIKENESS}
        for id, place in self._places.items():
            line = marks.get(written_key("none", rm, view, weight, id))
            for measure in LIKENESS:
                if line is not None and measure in line.mark.parts:
                    found[measure][place] = line.mark.parts[measure]
        return found


def _chosen(
    run: BonRun, policy_view: str, places: dict[str, int], *, rm: str = "", view: str = "", oracle: bool = False
) -> Columns:
    """What to expect of the text that a chooser takes, or of any text where nobody chooses."""
    samples, marks, ratings = run.samples(), run.marks(), run.ratings()
    found: Columns = {measure: np.full(len(places), np.nan) for measure in LIKENESS}
    for id, place in places.items():
        marked, line = marks.get((policy_view, id)), samples.get((policy_view, id))
        if marked is None or line is None:
            continue
        scores: Sequence[float] | None = [0.0] * len(marked)
        if rm:
            rating = ratings.get((policy_view, rm, view, id))
            scores = rating.scores if rating is not None else None
        elif oracle:
            scores = _scores(marked)
        if scores is None:
            continue
        shares = chosen_probabilities(scores, len(marked))
        for measure in LIKENESS:
            values = [mark.parts.get(measure) for mark in marked]
            if None not in values:
                found[measure][place] = float(shares @ np.asarray(values, dtype=np.float64))
    return found


def _scores(marks: Sequence[Mark]) -> list[float] | None:
    found = [mark.score for mark in marks if mark.score is not None]
    return found if len(found) == len(marks) else None


def _in_context_method(name: str, decoding: Decoding, columns: Columns) -> Method:
    label = f"in context {name}, {decoding}"
    return Method(label=label, kind="in-context", name=name, decoding=decoding, columns=_known(columns))


def _known(columns: Columns) -> Columns:
    """Only columns that hold something."""
    measures: tuple[Measure, ...] = ("reward", "policy", *LIKENESS)
    return {one: columns[one] for one in measures if one in columns and not np.isnan(columns[one]).all()}
