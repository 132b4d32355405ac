"""Published figures, and ours beside them from one command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from palate.evaluate import Report, Summary
from palate.personal._train import IMPERSONAL, train
from palate.records import PalateError, unknown_name

MUCH = "over 50"
"""The users of whom more than 50 training pairs are known, as the paper has it."""


class Published(msgspec.Struct, frozen=True):
    """A figure from a paper: accuracy over all users, and over those of whom much is known."""

    method: str
    everybody: float
    much_known: float


class Step(msgspec.Struct, frozen=True):
    """One ingredient more: what a model reads, and how it learns."""

    what: str
    features: str
    method: str
    view: str = "none"


class Reproduction(msgspec.Struct, frozen=True):
    """An experiment of a paper: its data, its protocol, its figures, and our steps towards and beyond them."""

    title: str
    source: str
    benchmark: str
    protocol: str
    published: tuple[Published, ...]
    steps: tuple[Step, ...]


_EVERYTHING = "traits+minilm:all+smollm2:all"

REPRODUCTIONS = {
    "convarg": Reproduction(
        title="Which argument convinces this voter? UKPConvArgCrowdSample, one debate side left out at a time",
        source="Simpson and Gurevych (2020), Scalable Bayesian preference learning for crowds",
        benchmark="convarg-crowdsample",
        protocol="leave-out:category",
        published=(
            Published("GPPL", 0.71, 0.72),
            Published("crowdGPPL", 0.72, 0.74),
            Published("crowdBT-GP", 0.69, 0.71),
        ),
        steps=(
            Step("weighted sum of MiniLM's vector", "minilm", IMPERSONAL),
            Step("and of text traits", "traits+minilm", IMPERSONAL),
            Step("MiniLM's layers side by side", "traits+minilm:all", IMPERSONAL),
            Step("and SmolLM2's", _EVERYTHING, IMPERSONAL),
            Step("a smooth function of them", _EVERYTHING, "gppl"),
            Step("and the voter's own weights", _EVERYTHING, "per-user", "user"),
            Step("the same, a stranger's weights", _EVERYTHING, "per-user", "swapped"),
        ),
    ),
}


class Reached(msgspec.Struct, frozen=True):
    """What a step reached: accuracy and 95% interval over users, for everybody and where much is known."""

    step: Step
    everybody: tuple[float, float | None, float | None]
    much_known: tuple[float, float | None, float | None] | None
    run: str


def reproduce(
    name: str,
    *,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    progress: Report | None = None,
) -> list[Reached]:
    """Train and measure every step of an experiment; the same call goes on where an earlier one stopped."""
    if name not in REPRODUCTIONS:
        raise unknown_name("experiment", name, list(REPRODUCTIONS))
    wanted = REPRODUCTIONS[name]
    runs: dict[str, Summary] = {}
    for features in dict.fromkeys(step.features for step in wanted.steps):
        own = [step for step in wanted.steps if step.features == features]
        runs[features] = train(
            wanted.benchmark,
            [step.method for step in own],
            features=features,
            protocol=wanted.protocol,
            seed=seed,
            out=out,
            data_dir=data_dir,
            progress=progress,
            keep_models=False,
        )
    return [_reached(step, runs[step.features]) for step in wanted.steps]


def _reached(step: Step, summary: Summary) -> Reached:
    found = next(one for one in summary.results if (one.rm, one.view) == (step.method, step.view))
    part = next(
        (
            one
            for one in summary.slices
            if (one.rm, one.view, one.by, one.value) == (step.method, step.view, "known", MUCH)
        ),
        None,
    )
    if found.accuracy is None:
        raise PalateError(f"{step.method} rated nothing under {step.view}: see {summary.run}")
    much = (part.accuracy, part.low, part.high) if part else None
    return Reached(step, (found.accuracy, found.low, found.high), much, summary.run)


def reproduction_lines(wanted: Reproduction, reached: Sequence[Reached]) -> list[tuple[str, str, str]]:
    """Rows of the table: what, everybody, much known; published figures first."""
    lines = [(f"{one.method}, published", f"{one.everybody:.2f}", f"{one.much_known:.2f}") for one in wanted.published]
    for one in reached:
        lines.append((one.step.what, _written(one.everybody), _written(one.much_known)))
    return lines


def _written(figure: tuple[float, float | None, float | None] | None) -> str:
    if figure is None:
        return "-"
    value, low, high = figure
    interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
    return f"{value:.3f}{interval}"
