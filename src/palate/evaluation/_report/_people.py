"""How the users fare one by one: a histogram of their accuracies for each model and view."""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from palate.evaluation._report._groups import Row, groups, is_control
from palate.evaluation._results import Summary, UserAccuracy
from palate.report._numbers import count, percent

BINS = 11
"""Bars stand at 0, 10, 20 ... 100%."""
HEIGHT = 56


class Bar(msgspec.Struct, frozen=True):
    """The users of one bin: those served worse than chance, and the others stacked on them."""

    x: float
    worse_height: float
    other_height: float


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """The users of one model under one view."""

    view: str
    users: int
    worse: int
    expected: float
    """How many would be worse than chance if the model guessed."""
    chance: float
    bars: tuple[Bar, ...]

    @property
    def text(self) -> str:
        """The finding, in words."""
        return (
            f"{self.worse:,} of {count(self.users, 'user')} served worse than chance ({percent(self.chance)}); "
            f"a guesser would serve about {round(self.expected):,} so"
        )


class PeopleGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The histograms of one model."""

    rm: str
    control: bool
    histograms: tuple[Histogram, ...]


def people(summary: Summary) -> list[PeopleGroup]:
    """A histogram for every model and view that has users with scored items; models share one scale."""
    users: dict[tuple[str, str], list[UserAccuracy]] = defaultdict(list)
    for user in summary.user_accuracies:
        users[user.rm, user.view].append(user)
    found = []
    for group in groups(summary):
        alike = [bins for (rm, _), bins in users.items() if is_control(rm) == group.control]
        tallest = max((max(_bins(bins)) for bins in alike), default=1)
        histograms = tuple(
            _histogram(row, users[group.rm, row.result.view], tallest)
            for row in group.rows
            if users.get((group.rm, row.result.view))
        )
        if histograms:
            found.append(PeopleGroup(rm=group.rm, control=group.control, histograms=histograms))
    return found


def _histogram(row: Row, users: list[UserAccuracy], tallest: int) -> Histogram:
    chance = 0.5 if row.result.chance is None else row.result.chance
    worse = [user for user in users if user.accuracy < chance - 1e-9]
    counts = zip(_bins(users), _bins(worse), strict=True)
    return Histogram(
        view=row.label,
        users=len(users),
        worse=len(worse),
        expected=sum(_guessing_below(user.n, chance) for user in users),
        chance=chance,
        bars=tuple(
            Bar(_place(position), HEIGHT * below / tallest, HEIGHT * (total - below) / tallest)
            for position, (total, below) in enumerate(counts)
            if total
        ),
    )


def _bins(users: list[UserAccuracy]) -> list[int]:
    counts = [0] * BINS
    for user in users:
        counts[min(BINS - 1, max(0, round(user.accuracy * (BINS - 1))))] += 1
    return counts


def _place(position: int) -> float:
    return round(100 * position / BINS, 3)


def _guessing_below(n: int, chance: float) -> float:
    """The probability that a guesser gets less than `chance` of `n` items."""
    if n < 1 or not 0 < chance < 1:
        return 0.0
    most = math.ceil(n * chance - 1e-9)
    return sum(
        math.exp(
            math.lgamma(n + 1) - math.lgamma(right + 1) - math.lgamma(n - right + 1)
            + right * math.log(chance) + (n - right) * math.log1p(-chance)
        )
        for right in range(most)
    )  # fmt: skip
