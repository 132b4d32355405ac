"""What a self-test found, put into words."""

from __future__ import annotations

from collections.abc import Iterator

from palate.audit._selftest import FOUND, SelfTest, Taste, Tried
from palate.report import Document, Finding, Section, Table

_TASTES: dict[Taste, str] = {
    "length": "half of the people like the longer response and half the shorter, and their past choices show it",
    "topic": "people like the response that shares most words with what they wrote before",
    "group": "half of the groups like the longer response and half the shorter",
}


def selftest_document(found: SelfTest) -> Document:
    """The table of tries, and what follows from it."""
    rows = [
        (
            _labels(one),
            f"{one.points:+.1f}" if one.points else "nothing",
            f"{one.over_none:+.1f}",
            f"{one.over_stranger:+.1f}",
            f"{one.called} of {one.tries}",
        )
        for one in found.tried
    ]
    titles = ("labels", "worth", "over none", "over strangers", "said to use the person")
    return Document(
        name="Self-test",
        title=found.benchmark,
        size=f"{found.items:,} items, {found.users:,} users, {found.view}, seed {found.seed}",
        lead=f"Planted: {_TASTES[found.taste]}.",
        findings=list(conclusions(found)),
        sections=[Section(title="Tries", blocks=[Table(titles=titles, words=1, rows=rows)], terminal=True)],
    )


def _labels(one: Tried) -> str:
    names = {"planted": "planted taste", "coins": "coins", "strangers": "real, strangers shown"}
    return names[one.labels]


def conclusions(found: SelfTest) -> Iterator[Finding]:
    """What the tries say of the measurement, in plain words."""
    nulls = [one for one in found.tried if not one.points]
    alarms, tries = sum(one.called for one in nulls), sum(one.tries for one in nulls)
    if alarms > max(2, 0.1 * tries):
        yield Finding(
            "warning", f"False alarms: {alarms} of {tries}. This is too many: do not trust a gain that this data shows."
        )
    else:
        yield Finding("good", f"False alarms: {alarms} of {tries}.")
    smallest = found.smallest_found
    largest = max(one.points for one in found.tried)
    if smallest is None:
        yield Finding(
            "warning",
            f"This measurement would not show an effect of {largest:g} points: it was found in fewer than {FOUND:.0%} "
            "of the tries. If a run on this data shows no gain, that says little. More users or items, or a view that "
            "shows more, would help.",
        )
    else:
        yield Finding(
            "good",
            f"This measurement would show a taste that is worth {smallest:g} points to whoever knows it. If a run on "
            "this data shows no gain, a model that reads people as well as this reader would have found a taste of "
            "that size.",
        )
    if found.shown < 0.9 * found.items:
        yield Finding(
            "note", f"Only {found.shown:,} of {found.items:,} items have anything to show; the others tell nothing."
        )
