"""What a self-test found, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from palate.audit._selftest import FOUND, SelfTest, Taste, Tried
from palate.report import printable

_TASTES: dict[Taste, str] = {
    "length": "half of the people like the longer response and half the shorter, and their past choices show it",
    "topic": "people like the response that shares most words with what they wrote before",
    "group": "half of the groups like the longer response and half the shorter",
}


def render_selftest(found: SelfTest, console: Console) -> None:
    """The table of tries, then what follows from it."""
    head = f"{found.benchmark}  {found.items:,} items, {found.users:,} users, {found.view}, seed {found.seed}"
    console.print(printable(head, console, "bold"))
    console.print(printable(f"Planted: {_TASTES[found.taste]}.", console, "dim"))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("labels")
    for title in ("worth", "over none", "over strangers", "said to use the person"):
        table.add_column(title, justify="right")
    for one in found.tried:
        worth = f"{one.points:+.1f}" if one.points else "nothing"
        called = f"{one.called} of {one.tries}"
        table.add_row(_labels(one), worth, f"{one.over_none:+.1f}", f"{one.over_stranger:+.1f}", called)
    console.print(table)
    console.print()
    for sentence in conclusions(found):
        console.print(printable(sentence, console))


def _labels(one: Tried) -> str:
    names = {"planted": "planted taste", "coins": "coins", "strangers": "real, strangers shown"}
    return names[one.labels]


def conclusions(found: SelfTest) -> Iterator[str]:
    """What the tries say of the measurement, in plain words."""
    nulls = [one for one in found.tried if not one.points]
    alarms, tries = sum(one.called for one in nulls), sum(one.tries for one in nulls)
    if alarms > max(2, 0.1 * tries):
        yield f"False alarms: {alarms} of {tries}. This is too many: do not trust a gain that this data shows."
    else:
        yield f"False alarms: {alarms} of {tries}."
    smallest = found.smallest_found
    largest = max(one.points for one in found.tried)
    if smallest is None:
        yield (
            f"This measurement would not show an effect of {largest:g} points: it was found in fewer than {FOUND:.0%} "
            "of the tries. If a run on this data shows no gain, that says little. More users or items, or a view that "
            "shows more, would help."
        )
    else:
        yield (
            f"This measurement would show a taste that is worth {smallest:g} points to whoever knows it. If a run on "
            "this data shows no gain, a model that reads people as well as this reader would have found a taste of "
            "that size."
        )
    if found.shown < 0.9 * found.items:
        yield f"Only {found.shown:,} of {found.items:,} items have anything to show; the others tell nothing."
