"""Critics by name: `rubric:MODEL,url=...`, `reference:rougeL`, `sim`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from palate.engine import at_work, rehearsing
from palate.records import Benchmark, Critic, Draft, Grade, PalateError, Registry

CRITICS: Registry[Callable[..., Critic]] = Registry(
    "critic",
    "palate.critics",
    {
        "rubric": ("A language model grades each aspect of the item's rubric.", "palate.downstream:RubricCritic"),
        "reference": ("Likeness to what the user wrote or preferred.", "palate.downstream:ReferenceCritic"),
        "sim": ("A simulated user's own utility, which is the truth.", "palate.simulate:SimulatedCritic"),
    },
    needs=("name", "require", "judge"),
)


def make_critic(spec: str, benchmark: Benchmark) -> Critic:
    """A critic by name, for a benchmark about which it can say something.

    >>> from palate.data import load_benchmark
    >>> make_critic("sim", load_benchmark("sim,users=2")).name
    'sim'
    """
    critic = CRITICS.make_sourced(spec)
    critic.require([*benchmark.comparisons, *benchmark.completions])
    return critic


def as_critic(critic: str | Critic, benchmark: Benchmark) -> Critic:
    """A critic by name, or the one that was given."""
    if not isinstance(critic, str):
        return critic
    return make_critic(critic, benchmark)


def judged(critic: Critic, drafts: Sequence[Draft]) -> list[Grade]:
    """One sound grade for each draft, or a clear error that names the critic."""
    try:
        with at_work("critic", critic.name, len(drafts)):
            marks = _rehearsed(critic, drafts) or list(critic.judge(drafts))
    except PalateError:
        raise
    except Exception as error:
        raise PalateError(
            f"the critic {critic.name!r} failed: {type(error).__name__}: {error}. What was graded before is kept: "
            "run the same command again to resume."
        ) from error
    if len(marks) != len(drafts):
        raise PalateError(f"the critic {critic.name!r} gave {len(marks)} grades for {len(drafts)} texts")
    return [_sound(mark) for mark in marks]


def _rehearsed(critic: Critic, drafts: Sequence[Draft]) -> list[Grade]:
    """In a rehearsal: no grades, in place of a critic of somebody else's, which may cost money."""
    meter = rehearsing()
    if meter is None or type(critic).__module__.partition(".")[0] == "palate":
        return []
    meter.not_asked()
    return [Grade(unscored="not asked")] * len(drafts)


def _sound(mark: Grade) -> Grade:
    """A score that is no finite number can be compared with nothing, and JSON has no word for it."""
    parts = {name: value for name, value in mark.parts.items() if math.isfinite(value)}
    if mark.score is not None and not math.isfinite(mark.score):
        return Grade(unscored=f"the score is no finite number: {mark.score}", parts=parts)
    return Grade(mark.score, mark.unscored, parts)
