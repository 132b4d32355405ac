"""Critics by name: `rubric:MODEL,url=...`, `reference:rougeL`, `sim`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence

from palate.records import Benchmark, Critic, Draft, Grade, PalateError, parse_spec, unknown_name


def _rubric(model: str | None, options: Mapping[str, str]) -> Critic:
    from palate.downstream._rubric import RubricCritic

    if model is None:
        raise PalateError("the critic rubric needs a language model: write rubric:MODEL or rubric:MODEL,url=ADDRESS")
    return RubricCritic(model, **options)


def _reference(measure: str | None, options: Mapping[str, str]) -> Critic:
    from palate.downstream._reference import ReferenceCritic

    _only_known(ReferenceCritic, options, "reference")
    return ReferenceCritic(measure or "rouge1", **options)


def _sim(argument: str | None, options: Mapping[str, str]) -> Critic:
    from palate.simulate._simulated import SimulatedCritic

    if argument is not None or options:
        raise PalateError("the critic sim takes no argument and no options: the ids of users tell seed and taste")
    return SimulatedCritic()


CRITICS: dict[str, Callable[[str | None, Mapping[str, str]], Critic]] = {
    "rubric": _rubric,
    "reference": _reference,
    "sim": _sim,
}
"""How each critic is made from its argument and options; imports are inside, so that naming one costs nothing."""


def make_critic(spec: str, benchmark: Benchmark) -> Critic:
    """A critic by name, for a benchmark about which it can say something.

    >>> from palate.data import load_benchmark
    >>> make_critic("sim", load_benchmark("sim,users=2")).name
    'sim'
    """
    parsed = parse_spec(spec)
    if parsed.name not in CRITICS:
        raise unknown_name("critic", parsed.name, CRITICS)
    critic = CRITICS[parsed.name](parsed.argument, parsed.options)
    critic.require([*benchmark.comparisons, *benchmark.completions])
    return critic


def _only_known(made: Callable[..., Critic], options: Mapping[str, str], name: str) -> None:
    parameters = inspect.signature(made).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise unknown_name(f"option for the critic {name}", option, known)


def as_critic(critic: str | Critic, benchmark: Benchmark) -> Critic:
    """A critic by name, or the one that was given."""
    if not isinstance(critic, str):
        return critic
    return make_critic(critic, benchmark)


def judged(critic: Critic, drafts: Sequence[Draft]) -> list[Grade]:
    """One sound mark for each draft, or a clear error that names the critic."""
    try:
        marks = list(critic.judge(drafts))
    except PalateError:
        raise
    except Exception as error:
        raise PalateError(
            f"the critic {critic.name!r} failed: {type(error).__name__}: {error}. What was marked before is kept: "
            "the same command goes on from there."
        ) from error
    if len(marks) != len(drafts):
        raise PalateError(f"the critic {critic.name!r} gave {len(marks)} marks for {len(drafts)} texts")
    return [_sound(mark) for mark in marks]


def _sound(mark: Grade) -> Grade:
    """A score that is no finite number can be compared with nothing, and JSON has no word for it."""
    parts = {name: value for name, value in mark.parts.items() if math.isfinite(value)}
    if mark.score is not None and not math.isfinite(mark.score):
        return Grade(unscored=f"the score is no finite number: {mark.score}", parts=parts)
    return Grade(mark.score, mark.unscored, parts)
