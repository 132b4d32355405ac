"""A table of preferences as a product team would export it, in which what there is to find is known.

It shows what a play through palate can find and what it cannot: a personal taste (lists or prose), a habit that is
nobody's own (the longer answer), a group that the habit serves badly (people of 60 and over take the shorter one), and
the rows that every export has: without a choice, without a name, twice, undecided.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from palate.records import PalateError
from palate.simulate._pool import EDITS, Offer, sentences_of, unedited_pool

QUESTION_COLUMNS = ("prompt", "response_a", "response_b")
EXAMPLE_COLUMNS = ("annotator", "question", "answer_a", "answer_b", "preferred", "age", "country", "submitted_at")
EXAMPLE_TASTE, EXAMPLE_HABIT = 0.95, 0.85
"""How often people follow their taste, where one answer is a list and the other is not; and else the habit."""
OLDEST = "60+"
_AGES = ("18-29", "30-44", "45-59", "30-44", OLDEST)
_COUNTRIES = ("DE", "US", "BR", "US", "DE", "IN")
_JUDGES = 2
"""How many people judge a pair, on average, as long as there are pairs enough."""
_UNASKED = 40
_TIES = 0.02
_UNDECIDED, _NAMELESS, _TWICE = 3, 1, 4
"""Rows without a choice, without a name, and exported twice."""


class ExampleTable(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, and the truth behind them."""

    rows: tuple[tuple[str, ...], ...]
    """As in the file, without the line of column names."""
    questions: tuple[tuple[str, ...], ...]
    """Other questions with two answers each, which none of these people was asked."""
    people: int
    oldest: int
    """People of 60 and over, who take the shorter answer."""
    best: float
    """The accuracy that is expected of whoever knows every taste and habit, on the rows with a choice."""
    impersonal: float
    """The most that is expected without knowing who chose: the habit of the others, and a coin for lists."""


class _Pair(msgspec.Struct, frozen=True):
    """Two answers that differ in form, or else in length."""

    question: str
    answers: tuple[str, str]
    form: bool
    wanted: int
    """The list, or else the longer answer."""


def example_table(people: int = 60, choices: int = 16, seed: int = 0) -> ExampleTable:
    """Choices of made-up people between answers of the built-in benchmark, in the order of their time.

    >>> table = example_table(people=10, choices=4)
    >>> table.people, table.oldest, len(table.rows)
    (10, 2, 44)
    """
    pairs = _pairs(seed)
    if people < 5 or not 1 <= choices <= len(pairs) - _UNASKED or seed < 0:
        raise PalateError(
            f"cannot make an example of people={people}, choices={choices}, seed={seed}: it takes at least 5 people, "
            f"1 to {len(pairs) - _UNASKED} choices of each, and no number below 0"
        )
    unasked = pairs[-_UNASKED:]
    pairs = pairs[: min(len(pairs) - _UNASKED, max(choices, people * choices // _JUDGES))]
    chance = random.Random(f"example {seed}")
    rows, best, impersonal = [], list[float](), list[float]()
    for number in range(people):
        shown = random.Random(f"shown {seed} {number}").sample(pairs, choices)
        for pair, moment in zip(shown, _moments(seed, number), strict=False):
            chosen = _choose(pair, number, chance)
            rows.append(_row(pair, number, chosen, moment))
            best.append(EXAMPLE_TASTE if pair.form else EXAMPLE_HABIT)
            impersonal.append(0.5 if pair.form else 1 - EXAMPLE_HABIT if _is_oldest(number) else EXAMPLE_HABIT)
    return ExampleTable(
        rows=tuple(sorted(_spoilt(rows, chance), key=lambda row: (row[-1], row[0]))),
        questions=tuple((pair.question, *pair.answers) for pair in unasked),
        people=people,
        oldest=sum(map(_is_oldest, range(people))),
        best=sum(best) / len(best),
        impersonal=sum(impersonal) / len(impersonal),
    )


def _pairs(seed: int) -> list[_Pair]:
    """Every second pair is a list and prose; of the others, one answer is cut to half of its sentences."""
    offers = [offer for offer in unedited_pool(seed) if all(len(sentences_of(text)) > 1 for text in offer.responses)]
    random.Random(f"example pairs {seed}").shuffle(offers)
    return [
        _pair(offer, place % 2 == 0, random.Random(f"edit {seed} {offer.id}")) for place, offer in enumerate(offers)
    ]


def _pair(offer: Offer, form: bool, chance: random.Random) -> _Pair:
    edited = chance.randrange(2)
    answers = list(offer.responses)
    answers[edited] = EDITS["listed" if form else "shortened"](answers[edited], chance)
    return _Pair(offer.prompt, (answers[0], answers[1]), form, edited if form else 1 - edited)


def _is_oldest(number: int) -> bool:
    return _AGES[number % len(_AGES)] == OLDEST


def _choose(pair: _Pair, number: int, chance: random.Random) -> int:
    """The place of the answer that is taken; every second person likes lists, the others do not."""
    follows = chance.random() < (EXAMPLE_TASTE if pair.form else EXAMPLE_HABIT)
    likes = number % 2 == 0 if pair.form else not _is_oldest(number)
    return pair.wanted if likes == follows else 1 - pair.wanted


def _moments(seed: int, number: int) -> Iterator[str]:
    chance = random.Random(f"moments {seed} {number}")
    moment = datetime(2026, 3, 2, 8) + timedelta(minutes=chance.randrange(14 * 24 * 60))
    while True:
        moment += timedelta(minutes=chance.choice((1, 2, 2, 3, 5, 90, 1440)))
        yield moment.strftime("%Y-%m-%d %H:%M")


def _row(pair: _Pair, number: int, chosen: int, moment: str) -> tuple[str, ...]:
    return (
        f"rater-{number + 1:02}",
        pair.question,
        *pair.answers,
        ("answer_a", "answer_b")[chosen],
        _AGES[number % len(_AGES)],
        _COUNTRIES[number % len(_COUNTRIES)],
        moment,
    )


def _spoilt(rows: Sequence[tuple[str, ...]], chance: random.Random) -> list[tuple[str, ...]]:
    """With ties, and with the rows that somebody has to see to."""
    told = [_with(row, "preferred", "tie") if chance.random() < _TIES else row for row in rows]
    picked = chance.sample(range(len(told)), min(len(told), _UNDECIDED + _NAMELESS + _TWICE))
    for place in picked[:_UNDECIDED]:
        told[place] = _with(told[place], "preferred", "")
    for place in picked[_UNDECIDED : _UNDECIDED + _NAMELESS]:
        told[place] = _with(told[place], "annotator", "")
    return [*told, *(told[place] for place in picked[_UNDECIDED + _NAMELESS :])]


def _with(row: tuple[str, ...], column: str, value: str) -> tuple[str, ...]:
    place = EXAMPLE_COLUMNS.index(column)
    return (*row[:place], value, *row[place + 1 :])
