"""Habits in the labels that a model could follow without reading: position and length."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from palate.data._draft import Draft
from palate.data._faults import Fault, Place, warning

SIGNIFICANT = 0.001
LONGER_SHARE = 0.55


def position_faults(draft: Draft) -> Iterator[Fault]:
    """A position that is chosen always, or more often than chance allows; only where positions mean something."""
    items = [item for item, _ in draft.comparisons if not draft.unordered and item.id not in draft.chosen_first]
    if len(items) < 2:
        return
    place = Place(draft.source)
    positions = [item.preferred if item.shown is None else item.shown[item.preferred] for item in items]
    counts = Counter(positions)
    position, count = counts.most_common(1)[0]
    if count == len(items):
        yield warning(place, "preferred", f"position {position} is chosen in all {count} rows; shuffle them")
        return
    for position, count in sorted(counts.items()):
        chances = [1 / len(item.responses) if position < len(item.responses) else 0.0 for item in items]
        expected = sum(chances)
        if count > expected and tail(count, expected, sum(p * (1 - p) for p in chances)) < SIGNIFICANT:
            shares = f"{count / len(items):.0%} of {len(items)} rows, where chance gives {expected / len(items):.0%}"
            yield warning(place, "preferred", f"position {position} is chosen in {shares}")


def longer_faults(draft: Draft) -> Iterator[Fault]:
    """Chosen responses that are systematically the longer ones (sign test)."""
    longer = shorter = 0
    for item, _ in draft.comparisons:
        difference = len(item.chosen) - fmean(map(len, item.rejected))
        longer += difference > 0
        shorter += difference < 0
    count = longer + shorter
    share = longer / count if count else 0.0
    if share > LONGER_SHARE and tail(longer, count / 2, count / 4) < SIGNIFICANT:
        message = f"the chosen response is the longer one in {share:.0%} of {count} rows; report a length control"
        yield warning(Place(draft.source), "chosen", message)


def tail(count: int, expected: float, variance: float) -> float:
    """Two-sided p-value of a count that is a sum of independent draws, by the normal approximation."""
    if variance <= 0:
        return 0.0 if count != expected else 1.0
    deviation = max(0.0, abs(count - expected) - 0.5)
    return math.erfc(deviation / math.sqrt(2 * variance))
