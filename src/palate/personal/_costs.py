"""What a user costs: what is kept of them, how long it takes to learn them, and how long to score for them.

Measured with the finished models on this machine, one user and one question at a time, with every text read before:
the encoder's time is left out, since it is the same for all methods over frozen features. A method that tunes a
language model reads them again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import TypeVar

from palate.evaluation import Cost
from palate.personal._model import PersonalModel
from palate.personal._pairs import labelled
from palate.personal._tuned import TunedModel
from palate.records import Ask, Benchmark, Judgement, User, View

JUDGEMENTS = 8
"""How many of a user's choices a model is given."""
MOST = 20
"""Users to adapt to, and questions to score."""
SECONDS = 0.4
"""After which nothing is measured again: a model that takes seconds is timed once."""
NEWCOMER = "somebody new"

Thing = TypeVar("Thing")


def measure_cost(label: str, model: PersonalModel | TunedModel, benchmark: Benchmark) -> Cost:
    """Medians over users and questions of the benchmark; the model is as before afterwards."""
    newcomers = [user for user in _newcomers(benchmark) if model.can_learn(user)]
    kept: list[int] = []

    def adapt(user: User) -> None:
        model.adapt(user)
        kept.append(model.bytes_of(user.id))

    adapted = _milliseconds(adapt, newcomers)
    view = View(name="user", user_id=NEWCOMER, by_name=True)
    # Two texts that never stood side by side: a choice that the model was trained on would not be scored.
    asks = [
        Ask(id=one.id, prompt=one.prompt, responses=(one.responses[0], other.responses[1]), view=view)
        for one, other in pairwise(benchmark.comparisons[: MOST + 1])
    ]
    scored = _milliseconds(lambda ask: model.rate([ask]), asks)
    model.forget(NEWCOMER)
    return Cost(rm=label, bytes=int(median(kept or [0])), adapt_ms=adapted, score_ms=scored)


def _newcomers(benchmark: Benchmark) -> list[User]:
    """Users of the benchmark with their last choices, under a name that nobody has."""
    choices = labelled(benchmark.comparisons, benchmark.users)
    found = []
    for user in list(benchmark.users.values())[:MOST]:
        last = choices.get(user.id, [])[-JUDGEMENTS:]
        judgements = tuple(
            Judgement(prompt=one.prompt, responses=one.responses, preferred=one.preferred) for one in last
        )
        found.append(
            User(
                id=NEWCOMER,
                posts=user.posts,
                judgements=judgements,
                demographics=user.demographics,
                values=user.values,
            )
        )
    return found


def _milliseconds(do: Callable[[Thing], object], things: Sequence[Thing]) -> float | None:
    """The median time of doing it, to each thing once before the clock starts; None without any."""
    found: list[float] = []
    begun = time.perf_counter()
    for thing in things:
        do(thing)
        start = time.perf_counter()
        do(thing)
        end = time.perf_counter()
        found.append(1000 * (end - start))
        if end - begun > SECONDS:
            break
    return median(found) if found else None
