"""The release gate: nothing that does not know the user may tell the chosen response from the rejected one.

Four kinds of measures: `none` (reward models that see no profile), `length` (the control `longest`), `position` (the
response that stands first in the file) and `artefacts` (a classifier of surface marks). Each is compared with
guessing. A benchmark that fails is written all the same, and its card says so in its first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import numpy as np

from palate.audit import Telling, find_artefacts
from palate.build._plan import Gate
from palate.evaluation import Result, evaluate
from palate.personal import IMPERSONAL, train
from palate.records import Benchmark, PalateError
from palate.report import CLEAR, chance_of_error, percent, percent_interval
from palate.runs import Progress
from palate.stats import SHARE, Resamples, figures, independent_clusters

MIRRORED = "by construction: every item has a twin"
Verdict = Literal["within", "outside", "unclear", "not measured"]


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """How often something that does not know the user is right."""

    kind: str
    """`none`, `length`, `position` or `artefacts`."""
    by: str
    """The reward model, control or classifier."""
    verdict: Verdict
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    n: int = 0
    users: int = 0
    note: str = ""
    """What the classifier goes by, or why nothing was measured."""

    @property
    def text(self) -> str:
        """In a few words."""
        if self.accuracy is None or self.chance is None:
            return f"{self.kind} ({self.by}) not measured: {self.note}"
        interval = percent_interval(self.low, self.high)
        return f"{self.kind} ({self.by}) {percent(self.accuracy)}, 95% {interval}, chance {percent(self.chance)}"


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says of a benchmark."""

    within: float
    measures: list[Measure]

    @property
    def passes(self) -> bool:
        """Whether everything was measured and is within bounds."""
        return all(measure.verdict == "within" for measure in self.measures)

    @property
    def first_line(self) -> str:
        """What the card says first."""
        bound = f"{100 * self.within:g} points of chance"

        def listed(verdict: Verdict) -> str:
            return "; ".join(measure.text for measure in self.measures if measure.verdict == verdict)

        said = []
        if outside := listed("outside"):
            said.append(f"RELEASE GATE FAILED, not within {bound}: {outside}.")
        if unclear := listed("unclear"):
            said.append(f"Too few items to tell whether these are within {bound}: {unclear}.")
        if missing := listed("not measured"):
            said.append(f"Release gate incomplete: {missing}.")
        if said:
            return " ".join(said)
        if all(measure.note == MIRRORED for measure in self.measures):
            return f"Release gate passed {MIRRORED}; whoever does not know the user is right half of the time."
        widest = max((m.high - m.low) / 2 for m in self.measures if m.high is not None and m.low is not None)
        return f"Release gate passed: every measure is within {bound} (intervals up to ±{100 * widest:.1f} points)."


def judge(accuracy: float, low: float | None, high: float | None, chance: float, within: float) -> Verdict:
    """Within bounds, outside them beyond luck, or one of both and the items are too few to tell.

    >>> judge(0.61, 0.55, 0.67, 0.5, 0.02), judge(0.54, 0.45, 0.63, 0.5, 0.02), judge(0.51, 0.47, 0.55, 0.5, 0.02)
    ('outside', 'unclear', 'within')
    """
    if abs(accuracy - chance) <= within:
        return "within"
    if low is None or high is None or low <= chance <= high:
        return "unclear"
    return "outside"


def run_gate(benchmark: Benchmark, gate: Gate, *, seed: int, progress: Progress | None = None) -> GateResult:
    """Measure everything; what cannot be measured here is said, with the reason."""
    if all(item.twin for item in benchmark.comparisons):
        return GateResult(within=gate.within, measures=_mirrored(benchmark, gate))
    with TemporaryDirectory(prefix="palate-gate-") as place:
        measures = [
            _length(benchmark, gate, seed, Path(place), progress),
            _position(benchmark, gate, seed),
            *_models(benchmark, gate, seed, Path(place), progress),
            _artefacts(benchmark, gate, seed),
        ]
    return GateResult(within=gate.within, measures=measures)


def _mirrored(benchmark: Benchmark, gate: Gate) -> list[Measure]:
    """Where every item has a twin, whoever does not know the user is right on one of the two, whatever they go by."""
    measured = [("length", "longest"), ("position", "first in the file")]
    measured += [("none", name) for name in gate.models] + [("artefacts", "surface marks")]
    return [
        Measure(
            kind=kind,
            by=by,
            verdict="within",
            accuracy=0.5,
            low=0.5,
            high=0.5,
            chance=0.5,
            n=len(benchmark.comparisons),
            users=len({item.user_id for item in benchmark.comparisons}),
            note=MIRRORED,
        )
        for kind, by in measured
    ]


def _length(benchmark: Benchmark, gate: Gate, seed: int, out: Path, progress: Progress | None) -> Measure:
    summary = evaluate(benchmark, ["longest"], ["none"], seed=seed, out=out, progress=progress)
    return _measure("length", "longest", gate, summary.results[0])


def _position(benchmark: Benchmark, gate: Gate, seed: int) -> Measure:
    """Of the file itself: the orders in which palate shows responses to a model are shuffled."""
    items = benchmark.comparisons
    first = np.array([float(item.preferred == 0) for item in items])
    clusters = independent_clusters(items)
    [share] = figures([(first, SHARE)], clusters, Resamples(int(clusters.max()) + 1, seed))
    chance = float(np.mean([1 / len(item.responses) for item in items]))
    accuracy, low, high = float(first.mean()), share.low if share else None, share.high if share else None
    return Measure(
        kind="position",
        by="first in the file",
        verdict=judge(accuracy, low, high, chance, gate.within),
        accuracy=accuracy,
        low=low,
        high=high,
        chance=chance,
        n=len(items),
        users=len({item.user_id for item in items}),
    )


def _models(benchmark: Benchmark, gate: Gate, seed: int, out: Path, progress: Progress | None) -> Iterator[Measure]:
    for name in gate.models:
        try:
            if name == IMPERSONAL:
                summary = train(
                    benchmark,
                    [IMPERSONAL],
                    protocol="unseen",
                    views=["none"],
                    seed=seed,
                    out=out,
                    progress=progress,
                    keep_models=False,
                )
            else:
                summary = evaluate(benchmark, [name], ["none"], seed=seed, out=out, progress=progress)
        except PalateError as error:
            yield Measure(kind="none", by=name, verdict="not measured", note=str(error).rstrip("."))
            continue
        yield from (_measure("none", name, gate, result) for result in summary.results if result.view == "none")


def _measure(kind: str, by: str, gate: Gate, result: Result) -> Measure:
    if result.accuracy is None or result.chance is None:
        return Measure(kind=kind, by=by, verdict="not measured", note="no item has a score")
    return Measure(
        kind=kind,
        by=by,
        verdict=judge(result.accuracy, result.low, result.high, result.chance, gate.within),
        accuracy=result.accuracy,
        low=result.low,
        high=result.high,
        chance=result.chance,
        n=result.n,
        users=result.users,
    )


def _artefacts(benchmark: Benchmark, gate: Gate, seed: int) -> Measure:
    try:
        found = find_artefacts(benchmark.comparisons, seed=seed)
    except PalateError as error:
        return Measure(kind="artefacts", by="surface marks", verdict="not measured", note=str(error).rstrip("."))
    verdict = judge(found.accuracy, found.low, found.high, found.chance, gate.within)
    if verdict == "outside" and found.p >= CLEAR:  # permuted labels do as well
        verdict = "unclear"
    return Measure(
        kind="artefacts",
        by="surface marks",
        verdict=verdict,
        accuracy=found.accuracy,
        low=found.low,
        high=found.high,
        chance=found.chance,
        n=found.n,
        users=found.users,
        note="; ".join(filter(None, (f"p {chance_of_error(found.p)}", _telling(found.telling)))),
    )


def _telling(marks: Iterable[Telling]) -> str:
    return ", ".join(mark.feature for mark in list(marks)[:5])
