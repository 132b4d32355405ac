"""The stages that many kinds of runs have: rate what is not rated yet, grade what is not graded yet.

Each batch is on the disk before the next begins, so a run that was stopped resumes where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from palate.engine import at_work
from palate.records import Ask, Rating, View
from palate.rewards import REWARD_MODEL, rate
from palate.runs._ledger import Ledger
from palate.runs._models import LoadedModel, Tell, told_within
from palate.runs._run import RunWriter
from palate.runs._setup import ItemType
from palate.views import Missing, ViewSpec, drawn

Some = TypeVar("Some")
Line = TypeVar("Line")
_TO_COME = Rating(unscored="to come")


Build = Callable[[ViewSpec, Sequence[ItemType], int], Sequence[View | Missing]]
"""Makes the views of items."""


def rate_missing(
    writer: RunWriter,
    ledger: Ledger[Line],
    models: Sequence[LoadedModel],
    views: Sequence[ViewSpec],
    items: Sequence[ItemType],
    build: Build[ItemType],
    *,
    line: Callable[[str, str, str, int, Rating], Line],
    ask: Callable[[ItemType, View], Ask | Missing],
    tell: Tell,
    responses: int = 2,
    finish: Callable[[Rating, ItemType], Rating] = lambda rating, item: rating,
    shown: Callable[[ViewSpec, int, Sequence[ItemType], Sequence[View | Missing]], None] | None = None,
) -> None:
    """Every model under every view and draw of strangers, on the items that it has not rated.

    `line` makes a line from model, view, item, draw and rating; `ask` is what a model is asked, with `responses` texts;
    `shown` is told which views were built.
    """
    done = writer.keys(ledger)
    resumed = len(done) > 0
    key = ledger.key
    assert key is not None

    def size(model: LoadedModel) -> int:
        """A model's batch is meant for pairs."""
        return max(1, 2 * model.batch_size // responses)

    for spec, draw in drawn(views):
        for some in chunks(items, max(size(model) for model in models)):
            waiting = [
                (
                    model,
                    [
                        item
                        for item in some
                        if not resumed or key(line(model.label, spec.name, item.id, draw, _TO_COME)) not in done
                    ],
                )
                for model in models
            ]
            if not any(pending for _, pending in waiting):
                continue
            built = build(spec, some, draw)
            if shown is not None:
                shown(spec, draw, some, built)
            views_of = dict(zip((item.id for item in some), built, strict=True))
            for model, pending in waiting:
                for batch in chunks(pending, size(model)):
                    asks = [
                        view if isinstance(view := views_of[item.id], Missing) else ask(item, view) for item in batch
                    ]
                    what = f"{model.label} rates, seeing {spec.name}"
                    with told_within(tell, partial(_with_status, what, model), len(batch)):
                        ratings = ratings_of(model, asks)
                    writer.add(
                        ledger,
                        [
                            line(model.label, spec.name, item.id, draw, finish(rating, item))
                            for item, rating in zip(batch, ratings, strict=True)
                        ],
                    )


def _with_status(what: str, model: LoadedModel) -> str:
    return f"{what}{model.status}"


def ratings_of(model: LoadedModel, asks: Sequence[Ask | Missing]) -> list[Rating]:
    """A rating for each ask; unscored where there is nothing to ask."""
    sound = [ask for ask in asks if isinstance(ask, Ask)]
    with at_work(REWARD_MODEL, model.label, len(sound)):
        rated = iter(rate(model.model, sound) if sound else [])
    return [next(rated) if isinstance(ask, Ask) else Rating(unscored=ask.reason) for ask in asks]


def chunks(items: Sequence[Some], size: int) -> Iterator[Sequence[Some]]:
    """At most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
