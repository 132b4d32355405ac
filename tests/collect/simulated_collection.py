"""A collection whose truth is known: simulated people answer, and some of them cheat in a way that the test plants."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from palate.collect._records import Answer, Collected, Item, Participant, SurveyAnswer
from palate.simulate import taste_of, utility
from palate.simulate._pool import Offer, pool
from palate.simulate._taste import user_id

TASK = "compare"
NOISE = 0.2
READING = 15.0
"""Characters a second that an honest person reads."""
PLANTS = ("first", "hasty", "coin", "paste", "longest", "careless")
"""Takes what stands first; answers at once; tosses a coin; pastes one reason; takes the longest; fails every check."""


@lru_cache(maxsize=8)
def _pool(seed: int) -> list[Offer]:
    return pool(seed)


def items_of(count: int, *, seed: int = 0, checks: int = 0) -> tuple[Item, ...]:
    """Pairs of real texts, and after them attention checks whose second response is the right one."""
    pairs = [
        Item(id=f"item-{place:03}", prompt=offer.prompt, responses=offer.responses, category=offer.category)
        for place, offer in enumerate(_pool(seed)[:count])
    ]
    attention = [
        Item(id=f"check-{place}", prompt="Choose the text that names a colour.", check=1, responses=(word, "Blue."))
        for place, word in zip(
            range(checks), ("Table.", "Chair.", "River.", "Bread.", "Paper.", "Stone."), strict=False
        )
    ]
    return (*pairs, *attention)


def collect(
    people: int = 12,
    items: int = 20,
    *,
    seed: int = 0,
    draw: int = 0,
    checks: int = 2,
    repeats: int = 4,
    tie_below: float = 0.0,
    noise: float = NOISE,
    plants: Mapping[int, str] | None = None,
    survey: bool = True,
) -> Collected:
    """Everybody judges every item; `repeats` of them come twice. `plants` says who cheats, and how.

    `seed` makes texts and tastes, `draw` the answers. Two responses whose utilities differ by less than `tie_below` are
    a tie. Honest people differ in how quickly they read.
    """
    shown = items_of(items, seed=seed, checks=checks)
    names = [user_id(seed, number) for number in range(people)]
    answers = [
        answer
        for number, name in enumerate(names)
        for answer in _answers(
            name, shown, repeats, tie_below, noise, (plants or {}).get(number), random.Random(f"{draw} {name}")
        )
    ]
    return Collected(
        project="teas",
        title="What people like",
        version="1",
        licence="CC-BY-4.0",
        participants=tuple(
            Participant(id=name, strata={"region": ("north", "south")[number % 2]}, consent="1", started=_moment(0))
            for number, name in enumerate(names)
        ),
        items=shown,
        answers=tuple(answers),
        survey=tuple(_survey(names)) if survey else (),
    )


def _answers(
    name: str,
    items: Sequence[Item],
    repeats: int,
    tie_below: float,
    noise: float,
    plant: str | None,
    chance: random.Random,
) -> list[Answer]:
    first = chance.sample(list(items), len(items))
    again = [(item, 1) for item in chance.sample([item for item in items if item.check is None], repeats)]
    answers, pace = [], chance.lognormvariate(0, 0.3)
    for sequence, (item, repeat) in enumerate([*((item, 0) for item in first), *again]):
        shown = tuple(chance.sample(range(len(item.responses)), len(item.responses)))
        choice, tie = _choice(name, item, shown, tie_below, noise, plant, chance)
        usual = 0.4 if plant == "hasty" else pace * (4 + _length(item) / READING)
        answers.append(
            Answer(
                id=f"{name}-{sequence}",
                participant=name,
                task=TASK,
                item=item.id,
                repeat=repeat,
                shown=shown,
                choice=choice,
                tie=tie,
                reason=None if tie else _reason(name, item, sequence, plant),
                values=("calm",) if sequence % 3 == 0 else (),
                seconds=round(usual * chance.lognormvariate(0, 0.35), 2),
                pasted=plant == "paste",
                date=_moment(sequence),
                sequence=sequence,
            )
        )
    return answers


def _choice(
    name: str,
    item: Item,
    shown: Sequence[int],
    tie_below: float,
    noise: float,
    plant: str | None,
    chance: random.Random,
) -> tuple[int | None, bool]:
    if plant == "first":
        return shown.index(0), False
    if plant in ("coin", "hasty"):
        return chance.randrange(len(item.responses)), False
    if item.check is not None:
        return (1 - item.check if plant == "careless" else item.check), False
    if plant == "longest":
        return max(range(len(item.responses)), key=lambda place: len(item.responses[place])), False
    likes = [utility(taste_of(name), text) for text in item.responses]
    if max(likes) - min(likes) < tie_below:
        return None, True
    # Gumbel noise makes the choice logistic in the difference of utilities
    noisy = [like / noise + _gumbel(chance) for like in likes]
    return noisy.index(max(noisy)), False


def _length(item: Item) -> int:
    return len(item.prompt) + sum(map(len, item.responses))


def _gumbel(chance: random.Random) -> float:
    return -math.log(-math.log(chance.random() or 1e-12))


def _reason(name: str, item: Item, sequence: int, plant: str | None) -> str:
    if plant == "paste":
        return "As an attentive reader I find that this response is the more helpful one of the two."
    return f"Number {sequence} reads better to {name}."


def _survey(names: Collection[str]) -> list[SurveyAnswer]:
    questions = {"age_group": ("18-24", "35-44"), "interests": (["walking", "tea"], ["films"])}
    return [
        SurveyAnswer(
            id=f"{name}-{question}",
            participant=name,
            task="about",
            question=question,
            value=values[number % 2],
            date=_moment(0),
        )
        for number, name in enumerate(names)
        for question, values in questions.items()
    ]


def _moment(minute: int) -> str:
    return f"2026-03-0{1 + minute // 720}T{8 + minute // 60 % 12:02}:{minute % 60:02}:00Z"
