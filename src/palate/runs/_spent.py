"""What a run takes: foretold from its first items, and kept in the run folder when they and all others are measured.

`spent.json` is no ledger: it holds seconds and money, so it differs between two runs of the same command. It is added
to each time that the command is run again. Every run measures its first items in all stages before the others. So what
they took tells what the others will take, and nothing is measured twice.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, ParamSpec, TypeVar

import msgspec

from palate.data import picked
from palate.engine import COUNTS, Meter, Spent, metering, rehearsing, summed
from palate.runs._ledger import write_whole
from palate.runs._setup import ItemType, seeded

Given = ParamSpec("Given")
Made = TypeVar("Made")

SPENT = "spent.json"
FIRST = 4
"""Items that a run measures first."""
REHEARSED_SECONDS, MOST_REHEARSED = 2.0, 64
"""How long a rehearsal goes on after its first item, and with how many more items."""
EVERY = 1.0
"""Seconds after which what was spent is written again: a process that is killed forgets no more than that."""


class FirstItems(msgspec.Struct, frozen=True, kw_only=True):
    """What the first items took, so that a run that is resumed can say what is to come."""

    items: int
    models: list[Spent]


class RunSpent(msgspec.Struct, frozen=True, kw_only=True):
    """What a run took, each time that its command was run, in the order in which models were first asked."""

    seconds: float = 0.0
    """By the clock, from the first question to a model; those of shards are added up."""
    times: int = 0
    """How often something was measured: once, and once for each resume or shard."""
    models: list[Spent] = []
    first: FirstItems | None = None

    def plus(self, other: RunSpent) -> RunSpent:
        """Both together, as of two shards."""
        return RunSpent(
            seconds=self.seconds + other.seconds,
            times=self.times + other.times,
            models=summed(self.models, other.models),
            first=self.first or other.first,
        )


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What is still to come of a run."""

    measured: int
    """Items that it was measured on."""
    left: int
    """Items that it is about."""
    models: list[Spent]
    rehearsed: bool = False
    """Whether servers were not asked, so that tokens are at most and seconds only of models in this process."""
    unasked: list[tuple[str, str]] = []
    """Part and name of the models that were not asked, whose seconds are not known."""

    @property
    def seconds(self) -> float:
        """All models one after another, without reading weights."""
        return sum(one.seconds for one in self.models)

    @property
    def paid(self) -> bool:
        """Whether a server is asked whose answers may cost money."""
        return any(one.requests and one.cost != 0 for one in self.models)


Listener = Callable[[Estimate], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def read_spent(folder: Path) -> RunSpent | None:
    """What is recorded of a run; None where nothing is, or where it cannot be read."""
    if not (folder / SPENT).is_file():
        return None
    try:
        return msgspec.json.decode((folder / SPENT).read_bytes(), type=RunSpent)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def write_spent(folder: Path, spent: RunSpent) -> None:
    """Keep it; a disk that is full costs this record, not the run."""
    try:
        write_whole(folder / SPENT, msgspec.json.format(msgspec.json.encode(spent), indent=1) + b"\n")
    except OSError:
        return


class SpentKeeper:
    """Adds what models take now to what the run folder has of before."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self.folder, self._meter = folder, meter
        self._before = read_spent(folder) or RunSpent()
        self._begun, self._written = time.monotonic(), float("-inf")
        self.first = self._before.first

    @property
    def total(self) -> RunSpent:
        """Of all times together."""
        now = RunSpent(seconds=time.monotonic() - self._begun, times=1, models=self._meter.models, first=self.first)
        return self._before.plus(now)

    def save(self, *, due: float = 0.0) -> None:
        """Write it, unless that was done less than this many seconds ago or no model was at work."""
        if time.monotonic() - self._written >= due and self._meter.models:
            write_spent(self.folder, self.total)
            self._written = time.monotonic()


_KEEPER: ContextVar[SpentKeeper | None] = ContextVar("keeper", default=None)


@contextmanager
def keeping_spent(folder: Path) -> Iterator[SpentKeeper | None]:
    """Keep what models take in here; nothing is kept of a rehearsal, which has its own meter.

    Where this is kept already, it goes on: a run that is written to in several parts was started once.
    """
    if rehearsing():
        yield None
        return
    outer = _KEEPER.get()
    if outer is not None and outer.folder == folder:
        yield outer
        return
    with metering(Meter()) as meter:
        keeper = SpentKeeper(folder, meter)
        token = _KEEPER.set(keeper)
        try:
            yield keeper
        finally:
            _KEEPER.reset(token)
            keeper.save()


@contextmanager
def forecasting(listener: Listener | None) -> Iterator[None]:
    """Whoever measures in here tells the listener what is to come, once the first items are measured."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def first_of(ids: Iterable[str]) -> int:
    """Where the first items of a whole run end, which are drawn by their ids.

    The number lies between two items, so that it tells of none, and stays right when some of them are erased.
    """
    drawn = heapq.nsmallest(FIRST + 1, map(_draw, ids))
    return drawn[-1] if len(drawn) <= FIRST else sum(drawn[FIRST - 1 : FIRST + 1]) // 2


def is_first(item: str, first: int) -> bool:
    """Whether an item is measured in the first pass over a run."""
    return _draw(item) <= first


def _draw(item: str) -> int:
    return int.from_bytes(seeded("first", item)[:8])


def in_two_passes(
    items: Sequence[ItemType], first: int, most_remembered: Callable[[], int] | None = None
) -> Iterator[Sequence[ItemType]]:
    """The items that come first and, once it is told what they took, the others.

    `most_remembered` counts the tokens of all texts, which are the most that a model reads which remembers them.
    """
    if (meter := rehearsing()) is not None:
        drawn, begun = sorted(items, key=lambda item: _draw(item.id)), time.monotonic()
        yield drawn[:1]
        more = min(MOST_REHEARSED, int(REHEARSED_SECONDS / max(time.monotonic() - begun, 0.001)))
        if more and drawn[1:]:
            yield drawn[1 : more + 1]
        taken = FirstItems(items=min(len(drawn), more + 1), models=meter.models)
        _foretell(taken, RunSpent(), len(items), sorted(meter.unasked), most_remembered)
        return
    own = picked(items, lambda item: is_first(item.id, first))
    rest = picked(items, lambda item: not is_first(item.id, first))
    if own:
        yield own
        keeper = _KEEPER.get()
        if keeper is not None:
            keeper.first = keeper.first or FirstItems(items=len(own), models=keeper.total.models)
            if rest:
                _foretell(keeper.first, keeper.total, len(items), most_remembered=most_remembered)
    if rest:
        yield rest


def _foretell(
    first: FirstItems,
    spent: RunSpent,
    items: int,
    unasked: Sequence[tuple[str, str]] = (),
    most_remembered: Callable[[], int] | None = None,
) -> None:
    """Tell what all items will take, less what they took already."""
    listener = _LISTENER.get()
    if listener is None:
        return
    took = {(one.part, one.model): one for one in spent.models}
    models = []
    for one in summed([], first.models, items / first.items):
        if one.remembered_tokens and most_remembered is not None:
            _hold_to(one, most_remembered())
        if before := took.get((one.part, one.model)):
            one.add(before, -1.0)
        for name in COUNTS:
            setattr(one, name, max(0, getattr(one, name)))
        one.seconds, one.loading = max(0.0, one.seconds), 0.0
        one.cost = None if one.cost is None else max(0.0, one.cost)
        models.append(one)
    listener(
        Estimate(
            measured=first.items,
            left=items - (first.items if spent.models else 0),
            models=models,
            rehearsed=rehearsing() is not None,
            unasked=list(unasked),
        )
    )


def _hold_to(one: Spent, most: int) -> None:
    """The first items hold texts that come again with many others; those are read once, so all have no more than these.

    Seconds are taken in proportion to the tokens.
    """
    more = max(0, one.remembered_tokens - most)
    one.seconds *= 1 - more / one.prompt_tokens
    one.prompt_tokens -= more
    one.remembered_tokens -= more


class _ForetoldError(Exception):
    """Stops a run once it is known what is to come."""

    def __init__(self, estimate: Estimate) -> None:
        super().__init__()
        self.estimate = estimate


def _stop(estimate: Estimate) -> NoReturn:
    raise _ForetoldError(estimate)


def rehearse(measure: Callable[Given, Any], *args: Given.args, **kwargs: Given.kwargs) -> Estimate | None:
    """What `measure(*args, **kwargs)` would take; no server is asked, and nothing is kept.

    One item, and more where that is quick, goes through everything that is done with an item. Models of this process do
    their part of it, long texts are begun and not ended. None where such a run does not tell.
    """
    with TemporaryDirectory() as out, metering(Meter(rehearsal=True)), forecasting(_stop):
        given: dict[str, Any] = {**kwargs, "out": Path(out)}
        try:
            measure(*args, **given)
        except _ForetoldError as foretold:
            return foretold.estimate
    return None


def run_parts(parts: Sequence[Callable[[], Made]]) -> list[Made]:
    """One run after another. Where somebody listens, first the first items of each, so that the whole is foretold."""
    listener = _LISTENER.get()
    if listener is None:
        return [part() for part in parts]
    found: list[Estimate] = []
    for part in parts:
        try:
            with forecasting(_stop):
                part()
        except _ForetoldError as foretold:
            found.append(foretold.estimate)
    if found:
        models: list[Spent] = []
        for one in found:
            models = summed(models, one.models)
        unasked = sorted({name for one in found for name in one.unasked})
        listener(msgspec.structs.replace(found[0], models=models, unasked=unasked))
    with forecasting(None):
        return [part() for part in parts]
