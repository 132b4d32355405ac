"""Who may not have read what they judged? Annotators are flagged with reasons, and never dropped.

Tests are exact where the design makes them so: sides are drawn for each person and item, so that whoever has no habit
of position takes what stands first with a chance of exactly one over the number of responses. The false discovery rate
is held over all tests of all people. A flag also needs an effect that matters, since with enough answers the smallest
habit is significant: a habit is reported with its interval and is no fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from scipy import stats

from palate.collect._records import Answer, Collected, Item
from palate.stats import Floats, false_discovery

Reason = Literal["speed", "position", "ties", "checks", "pasted", "repeats"]
LEVEL = 0.05
"""The false discovery rate at which somebody is flagged."""
FASTEST = 100.0
"""Characters a second that nobody reads: about 1,000 words a minute."""
ONE_SIDED = 0.75
"""Whoever takes one position less often than this does not straight-line, whatever the test says."""
MOSTLY_TIES = 0.8
LAPSES = 0.05
"""The share of attention checks that an honest person gets wrong."""
CONTRARY = 0.4
"""Whoever contradicts themselves less often than this does better than a coin by some way."""
FEWEST_REASONS = 3
LONG_REASON = 5
"""Words from which a reason that is given again, word for word, was not written for the item."""
FEWEST_PEOPLE = 8
"""Fewer people do not show how quick people usually are."""
LENGTH_BINS = 10


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """How often one person did a thing, with Wilson's 95% interval over their answers."""

    share: float
    low: float
    high: float
    expected: float
    """What no habit would give."""
    n: int


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to look at a person's answers."""

    reason: Reason
    sentence: str
    q: float | None = None
    """With the false discovery rate held over all tests; None where a rule flags and not a test."""


class AnnotatorQuality(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of how one participant answers. Their answers stay in the data whatever this says."""

    participant: str
    answers: int
    median_seconds: float | None
    first: Habit | None
    """How often they took what they saw first."""
    longest: Habit | None
    """How often they took the longest response, where there is one."""
    ties: int
    checks: int
    checks_failed: int
    repeats: int
    contradictions: int
    """Repeats answered otherwise than the first time."""
    reasons: int
    reasons_pasted: int
    flags: tuple[Flag, ...]


class _Test(NamedTuple):
    participant: str
    reason: Reason
    p: float
    sentence: str
    matters: bool
    """Whether the effect is large enough to be flagged if the test is significant."""


def measure_quality(collected: Collected, *, task: str | None = None, level: float = LEVEL) -> list[AnnotatorQuality]:
    """Every participant who answered, those with flags first."""
    items = {item.id: item for item in collected.items if len(item.responses) > 1}
    answers: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(collected.answers, key=lambda answer: answer.sequence):
        if answer.item in items and (answer.choice is not None or answer.tie) and (task is None or answer.task == task):
            answers[answer.participant].append(answer)
    tests = [*_speed(answers, items), *_positions(answers, items), *_ties(answers, items), *_checks(answers, items)]
    tests += _repeats(answers)
    flags: dict[str, list[Flag]] = defaultdict(list)
    for test, q in zip(tests, false_discovery([test.p for test in tests]), strict=True):
        if q <= level and test.matters:
            flags[test.participant].append(Flag(reason=test.reason, sentence=test.sentence, q=q))
    for participant, flag in [*_unreadable(answers, items), *_reasons(answers)]:
        if flag.reason not in {one.reason for one in flags[participant]}:
            flags[participant].append(flag)
    people = [_describe(person, given, items, tuple(flags[person])) for person, given in answers.items()]
    return sorted(people, key=lambda person: (-len(person.flags), person.participant))


def _describe(
    participant: str, answers: Sequence[Answer], items: dict[str, Item], flags: tuple[Flag, ...]
) -> AnnotatorQuality:
    timed = [answer.seconds for answer in answers if answer.seconds is not None]
    checked = [answer for answer in answers if items[answer.item].check is not None]
    again = _again(answers)
    reasons = [answer for answer in answers if answer.reason]
    return AnnotatorQuality(
        participant=participant,
        answers=len(answers),
        median_seconds=median(timed) if timed else None,
        first=_habit([(shown == 0, 1 / k) for shown, k in _shown(answers, items)]),
        longest=_habit(list(_length(answers, items))),
        ties=sum(answer.tie for answer in answers),
        checks=len(checked),
        checks_failed=sum(answer.choice != items[answer.item].check for answer in checked),
        repeats=len(again),
        contradictions=sum(not same for same in again),
        reasons=len(reasons),
        reasons_pasted=sum(answer.pasted for answer in reasons),
        flags=flags,
    )


def _habit(taken: Sequence[tuple[bool, float]]) -> Habit | None:
    if not taken:
        return None
    result = stats.binomtest(sum(did for did, _ in taken), len(taken))
    between = result.proportion_ci(method="wilson")
    return Habit(
        share=float(result.statistic),
        low=float(between.low),
        high=float(between.high),
        expected=float(np.mean([chance for _, chance in taken])),
        n=len(taken),
    )


def _shown(answers: Sequence[Answer], items: dict[str, Item]) -> Iterator[tuple[int, int]]:
    """Where what was chosen stood, and among how many; on real items only, since a check has a right answer."""
    for answer in answers:
        if answer.choice is not None and items[answer.item].check is None:
            yield answer.shown[answer.choice], len(answer.shown)


def _length(answers: Sequence[Answer], items: dict[str, Item]) -> Iterator[tuple[bool, float]]:
    for answer in answers:
        item = items[answer.item]
        lengths = [len(text) for text in item.responses]
        counts = answer.choice is not None and item.check is None and answer.repeat == 0
        if counts and lengths.count(max(lengths)) == 1:
            yield lengths[answer.choice or 0] == max(lengths), 1 / len(lengths)


def _speed(answers: dict[str, list[Answer]], items: dict[str, Item]) -> Iterator[_Test]:
    """Seconds against those that texts of this length usually take, and people against people.

    The usual time is the median over all answers to texts of about the length. A person is as quick as the median of
    their departures from it, in logarithms; how far that lies from other people's is measured by median and MAD, so
    that the quick ones do not hide themselves.
    """
    timed = [(person, answer) for person, given in answers.items() for answer in given if (answer.seconds or 0) > 0]
    people = sorted({person for person, _ in timed})
    if len(people) < FEWEST_PEOPLE:
        return
    seconds = np.log([answer.seconds or 1.0 for _, answer in timed])
    lengths = np.array([_read(items[answer.item]) for _, answer in timed], dtype=np.float64)
    departures = seconds - _usual(seconds, lengths)
    of = np.array([person for person, _ in timed])
    pace = np.array([np.median(departures[of == person]) for person in people])
    spread = stats.median_abs_deviation(pace, scale="normal")
    if spread <= 0:
        return
    scores = (pace - np.median(pace)) / spread
    for person, score, own in zip(people, scores, pace, strict=True):
        # the tails of MAD scores of few people are heavier than normal
        p = float(stats.t.cdf(score, len(people) / 2))
        times = np.exp(-own)
        sentence = f"answers {times:.1f} times as fast as is usual for texts of the same length"
        yield _Test(person, "speed", p, sentence, times >= 2)


def _usual(seconds: Floats, lengths: Floats) -> Floats:
    edges = np.quantile(lengths, np.linspace(0, 1, LENGTH_BINS + 1)[1:-1])
    bins = np.searchsorted(edges, lengths)
    medians = {place: np.median(seconds[bins == place]) for place in np.unique(bins)}
    return np.array([medians[place] for place in bins])


def _read(item: Item) -> int:
    return len(item.prompt) + sum(map(len, item.responses))


def _unreadable(answers: dict[str, list[Answer]], items: dict[str, Item]) -> Iterator[tuple[str, Flag]]:
    for person, given in answers.items():
        timed = [(answer.seconds, items[answer.item]) for answer in given if answer.seconds is not None]
        rates = [_read(item) / max(seconds, 0.01) for seconds, item in timed]
        if len(rates) >= FEWEST_REASONS and median(rates) > FASTEST:
            rate = f"{median(rates):,.0f} characters a second"
            sentence = f"answers as if they read {rate}; nobody reads over {FASTEST:.0f}"
            yield person, Flag(reason="speed", sentence=sentence)


def _positions(answers: dict[str, list[Answer]], items: dict[str, Item]) -> Iterator[_Test]:
    """Exact: under random sides the number of choices at a position is a sum of independent draws of known chances."""
    for person, given in answers.items():
        places = list(_shown(given, items))
        if not places:
            continue
        tails, most = [], 0.0
        positions = max(count for _, count in places)
        for position in range(positions):
            chances = [1 / count for _, count in places if position < count]
            hits = sum(shown == position for shown, _ in places)
            tails.append(upper_tail(hits, chances))
            most = max(most, hits / len(chances))
        p = min(1.0, positions * min(tails))
        where = "first" if tails.index(min(tails)) == 0 else "last" if positions == 2 else "in one place"
        sentence = f"takes the response shown {where} in {most:.0%} of {len(places)} choices"
        yield _Test(person, "position", p, sentence, most >= ONE_SIDED)


def upper_tail(hits: int, chances: Sequence[float]) -> float:
    """The probability of at least `hits` hits in independent draws, each with its own chance; exact.

    >>> upper_tail(5, [0.5] * 5)
    0.03125
    """
    if len(set(chances)) == 1:
        return float(stats.binom.sf(hits - 1, len(chances), chances[0]))
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return float(min(1.0, distribution[hits:].sum()))


def _ties(answers: dict[str, list[Answer]], items: dict[str, Item]) -> Iterator[_Test]:
    counts = {
        person: (sum(answer.tie for answer in real), len(real))
        for person, given in answers.items()
        if (real := [answer for answer in given if items[answer.item].check is None])
    }
    for person, (ties, n), p in _against_others(counts):
        yield _Test(person, "ties", p, f"gives a tie in {ties} of {n} answers", ties / n >= MOSTLY_TIES)


def _against_others(counts: dict[str, tuple[int, int]]) -> Iterator[tuple[str, tuple[int, int], float]]:
    """Fisher's exact test, one-sided: does a person do it more often than all others together?"""
    did, asked = (sum(column) for column in zip(*counts.values(), strict=True)) if counts else (0, 0)
    for person, (own, n) in counts.items():
        yield person, (own, n), float(stats.hypergeom.sf(own - 1, asked, did, n))


def _checks(answers: dict[str, list[Answer]], items: dict[str, Item]) -> Iterator[_Test]:
    for person, given in answers.items():
        failed = [answer.choice != check for answer in given if (check := items[answer.item].check) is not None]
        if failed:
            p = float(stats.binom.sf(sum(failed) - 1, len(failed), LAPSES))
            yield _Test(person, "checks", p, f"failed {sum(failed)} of {len(failed)} attention checks", any(failed))


def _again(answers: Sequence[Answer]) -> list[bool]:
    """For each planned repeat, whether it was answered as the first time."""
    first = {(answer.task, answer.item): answer for answer in answers if answer.repeat == 0}
    return [
        (before.choice, before.tie) == (answer.choice, answer.tie)
        for answer in answers
        if answer.repeat and (before := first.get((answer.task, answer.item))) is not None
    ]


def _repeats(answers: dict[str, list[Answer]]) -> Iterator[_Test]:
    counts = {
        person: (sum(not same for same in again), len(again))
        for person, given in answers.items()
        if (again := _again(given))
    }
    for person, (times, n), p in _against_others(counts):
        sentence = f"contradicts themselves on {times} of {n} items that came twice"
        yield _Test(person, "repeats", p, sentence, times / n >= CONTRARY)


def _reasons(answers: dict[str, list[Answer]]) -> Iterator[tuple[str, Flag]]:
    """Rules, not tests: nobody pastes half of their reasons, or writes one sentence word for word again, by chance."""
    for person, given in answers.items():
        reasons = [answer for answer in given if answer.reason]
        if len(reasons) < FEWEST_REASONS:
            continue
        pasted = sum(answer.pasted for answer in reasons)
        items_of: dict[str, set[str]] = defaultdict(set)
        for answer in reasons:
            words = (answer.reason or "").casefold().split()
            if len(words) >= LONG_REASON:
                items_of[" ".join(words)].add(answer.item)
        again = max((len(items) for items in items_of.values()), default=0)
        if pasted >= FEWEST_REASONS and 2 * pasted >= len(reasons):
            yield person, Flag(reason="pasted", sentence=f"pasted {pasted} of {len(reasons)} reasons")
        elif again >= FEWEST_REASONS and 2 * again >= len(reasons):
            yield person, Flag(reason="pasted", sentence=f"gave one and the same reason for {again} items")
