"""What a run took and what it will take, as tables for the terminal, Markdown and the page."""

from __future__ import annotations

from collections.abc import Sequence

from palate.engine import Spent, money
from palate.report import ABSENT, Note, Section, Table, count
from palate.runs._spent import Estimate, RunSpent

QUICK = 0.05
"""Seconds in all below which models that read nothing share a line."""
TITLE = "What it cost"
TITLES = ("", "", "calls", "requests", "tokens\nin", "tokens\nout", "money", "time")
UNRECORDED = "Nothing is recorded of what this run cost: its folder has no spent.json."


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> [duration(seconds) for seconds in (0.004, 2.34, 75, 600, 9000)]
    ['0.0 s', '2.3 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def spent_section(spent: RunSpent | None) -> Section:
    """What each model of a run took, or that nobody wrote it down."""
    if spent is None:
        return Section(title=TITLE, blocks=[Note(UNRECORDED)], terminal=True)
    return Section(
        title=TITLE,
        lead=(
            "What each model was asked and what it took, over all times that the command was run. A model's time "
            "leaves out loading its weights."
        ),
        blocks=[spent_table(spent.models, note=_in_all(spent))],
        terminal=True,
    )


def _in_all(spent: RunSpent) -> str:
    loading = sum(one.loading for one in spent.models)
    words = [f"{duration(spent.seconds)} by the clock"]
    words += [f"over {spent.times} starts of the command"] if spent.times > 1 else []
    words += [f"{duration(loading)} of it loading weights"] if loading >= 1 else []
    paid = [one.cost for one in spent.models if one.requests]
    if paid and None not in paid:
        words.append(f"{money(sum(cost for cost in paid if cost is not None))} of money")
    return f"In all {', '.join(words)}.{_no_prices(spent.models)}"


def _no_prices(models: Sequence[Spent]) -> str:
    """How to see money, where a server is asked and its prices are not known."""
    if any(one.requests and one.cost is None for one in models):
        return " Money is not known without prices: add prices=IN/OUT, for a million tokens, to the model's name."
    return ""


def spent_table(
    models: Sequence[Spent], *, unasked: Sequence[tuple[str, str]] = (), note: str = "", title: str = ""
) -> Table:
    """A line for each model; those that took no time to speak of share one. Columns that say nothing are left out."""
    shown = [
        one
        for one in models
        if one.seconds >= QUICK or one.requests or one.prompt_tokens or one.cached or (one.part, one.model) in unasked
    ]
    others = [one for one in models if one not in shown]
    rows = [_row(one, known=(one.part, one.model) not in unasked) for one in shown]
    if others:
        together = Spent(part="others" if shown else "all", model=count(len(others), "model"))
        for one in others:
            together.add(one)
        rows.append(_row(together, known=True))
    told = [place for place, _ in enumerate(TITLES) if place < 2 or any(row[place] != ABSENT for row in rows)]
    return Table(
        title=title,
        titles=tuple(TITLES[place] for place in told),
        words=2,
        rows=[tuple(row[place] for place in told) for row in rows],
        note=note,
    )


def _row(one: Spent, *, known: bool) -> tuple[str, ...]:
    paid = ABSENT if not one.requests else "?" if one.cost is None else _money(one.cost)
    return (
        one.part,
        one.model,
        _with(one.calls, one.cached, "cached"),
        _with(one.requests, one.retries, "retried"),
        _number(one.prompt_tokens),
        _number(one.completion_tokens),
        paid,
        duration(one.seconds) if known else "?",
    )


def _money(amount: float) -> str:
    return "<0.01" if 0 < amount < 0.01 else money(amount)


def _number(number: int) -> str:
    return f"{number:,}" if number else ABSENT


def _with(number: int, of_them: int, word: str) -> str:
    return f"{_number(number)}\n{of_them:,} {word}" if of_them else _number(number)


def estimate_table(estimate: Estimate) -> Table:
    """What is still to come of a run, with what was measured and what is assumed."""
    if not estimate.rehearsed:
        return spent_table(
            estimate.models,
            title=f"Still to come: about {duration(estimate.seconds)}",
            note=f"Measured on the first {count(estimate.measured, 'item')}, which are kept; "
            f"{count(estimate.left, 'item')} to come.{_no_prices(estimate.models)}",
        )
    note = f"By a rehearsal of {count(estimate.measured, 'item')}: nothing was sent to a server, and nothing is kept."
    if any(one.completion_tokens and not one.requests for one in estimate.models):
        note += " Texts were begun, and count as if each had the maximum length."
    if any(one.requests for one in estimate.models):
        note += (
            " Tokens of requests are estimated: characters / 4 for a prompt, and the longest answer there may be. "
            "Answers that are in the cache already are counted, too."
        )
    if estimate.unasked:
        note += (
            f" Not asked, so their time is not known: {', '.join(model for _, model in estimate.unasked)}. The run "
            "itself measures its first items, then says how long the rest will take."
        )
    return spent_table(
        estimate.models,
        unasked=estimate.unasked,
        title=f"What {count(estimate.left, 'item')} would take"
        + ("" if estimate.unasked else f": about {duration(estimate.seconds)}"),
        note=note + _no_prices(estimate.models),
    )
