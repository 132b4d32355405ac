"""What models are asked and what that takes, counted where it happens.

Whoever measures opens a meter. What models then do in here is counted for the model that is at work: its questions,
those that were answered before, tokens, requests to a server, money, and seconds without those of other models.

In a rehearsal nothing is sent to a server, long texts are begun and not ended, and what they would have taken is
counted instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from palate.engine._costs import Usage
from palate.records import PalateError

REHEARSED = 4
"""Steps of a long text that a rehearsal takes."""
CHARACTERS = 4
"""Of a token, roughly, in English: for prompts that only a server could count."""


COUNTS = ("calls", "cached", "requests", "retries", "prompt_tokens", "completion_tokens", "remembered_tokens")
"""The fields of what a model took that are counted."""


class Spent(msgspec.Struct, kw_only=True):
    """What one model took."""

    part: str
    """What it was there for: `reward model`, `policy`, `critic`, `writer` or `training`."""
    model: str
    calls: int = 0
    """What it was asked: of a language model every prompt, of others every ask."""
    cached: int = 0
    """How many of them were answered from the cache."""
    requests: int = 0
    """To a server, tries that failed included."""
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    remembered_tokens: int = 0
    """Of the prompt tokens, those of texts whose vectors are kept: each is read once, however often it comes again."""
    cost: float | None = 0.0
    """Money by the prices that were given; null where a server was asked whose prices are not known."""
    seconds: float = 0.0
    """At work, without loading."""
    loading: float = 0.0
    """Seconds for reading its weights."""

    def add(self, other: Spent, times: float = 1.0) -> None:
        """Count what another took, `times` times."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + round(times * getattr(other, name)))
        self.seconds += times * other.seconds
        self.loading += other.loading
        self.cost = None if self.cost is None or other.cost is None else self.cost + times * other.cost


def summed(models: list[Spent], more: list[Spent], times: float = 1.0) -> list[Spent]:
    """What each model took in all, in the order in which they came."""
    found = {(one.part, one.model): msgspec.structs.replace(one) for one in models}
    for one in more:
        found.setdefault((one.part, one.model), Spent(part=one.part, model=one.model)).add(one, times)
    return list(found.values())


class Meter:
    """Counts for the model that is at work. One thread works at a time."""

    def __init__(self, *, rehearsal: bool = False) -> None:
        self.rehearsal = rehearsal
        self.unasked: set[tuple[str, str]] = set()
        """Models that a rehearsal did not ask, by part and name."""
        self._models: dict[tuple[str, str], Spent] = {}
        self._stack: list[tuple[Spent, str]] = []
        self._since = 0.0
        self._tell: Callable[[float], None] | None = None
        self._in_steps = False

    @property
    def models(self) -> list[Spent]:
        """What each model took so far."""
        self._charge()
        return [msgspec.structs.replace(one) for one in self._models.values()]

    @property
    def current(self) -> Spent | None:
        """Of the model that is at work."""
        return self._stack[-1][0] if self._stack else None

    def not_asked(self) -> None:
        """Note that the model that is at work was not asked, so that nothing is known of its seconds."""
        if self.current is not None:
            self.unasked.add((self.current.part, self.current.model))

    @contextmanager
    def at_work(self, part: str, model: str, calls: int) -> Iterator[None]:
        """Count for this model. Where it is asked no prompt, its calls are the asks that were put to it."""
        if self._stack and self._stack[-1][0].part == part:
            yield
            return
        spent = self._models.setdefault((part, model), Spent(part=part, model=model))
        before = spent.calls
        with self._clock(spent, "seconds"):
            yield
        if spent.calls == before:
            spent.calls += calls

    @contextmanager
    def loading(self) -> Iterator[None]:
        """What is read once is not what an item takes."""
        if not self._stack:
            yield
            return
        with self._clock(self._stack[-1][0], "loading"):
            yield

    @contextmanager
    def _clock(self, spent: Spent, field: str) -> Iterator[None]:
        self._charge()
        self._stack.append((spent, field))
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._stack:
            spent, field = self._stack[-1]
            setattr(spent, field, getattr(spent, field) + now - self._since)
        self._since = now

    @contextmanager
    def telling(self, tell: Callable[[float], None]) -> Iterator[None]:
        """`tell` hears which share of the work in here is done."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    @contextmanager
    def portion(self, start: float, size: float) -> Iterator[None]:
        """What is done in here is this much of the work at hand."""
        whole = self._tell
        with self.telling(lambda done: whole(start + size * done) if whole else None):
            yield

    def share(self, done: float) -> None:
        """Say how much of the work is done; steps within a step say nothing."""
        if self._tell is not None and not self._in_steps:
            self._tell(min(1.0, done))

    def steps(self, total: int) -> Iterator[int]:
        """The steps of something long. A rehearsal takes a few of them and counts what all would have taken."""
        inner, self._in_steps = self._in_steps, True
        few = min(total, REHEARSED) if self.rehearsal and not inner else total
        first: list[Spent] = []
        try:
            for step in range(few):
                yield step
                if few < total and step == 0:  # the first one also reads the prompt
                    first = self.models
                self._in_steps = inner
                self.share((step + 1) / total)
                self._in_steps = True
        finally:
            self._in_steps = inner
        if few < total:
            self._extrapolate(first, (total - few) / (few - 1))

    def _extrapolate(self, before: list[Spent], times: float) -> None:
        known = {(one.part, one.model): one for one in before}
        for now in self.models:
            then = known.get((now.part, now.model), Spent(part=now.part, model=now.model))
            more = Spent(part=now.part, model=now.model, seconds=now.seconds - then.seconds)
            for name in ("calls", "prompt_tokens", "completion_tokens"):
                setattr(more, name, getattr(now, name) - getattr(then, name))
            self._models[now.part, now.model].add(more, times)


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metering(meter: Meter) -> Iterator[Meter]:
    """What models do in here is counted by this meter."""
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def current_meter() -> Meter | None:
    """Who counts at this moment."""
    return _METER.get()


@contextmanager
def at_work(part: str, model: str, calls: int = 0) -> Iterator[None]:
    """What is done in here is done by this model; within a model of the same part it belongs to that one."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    with meter.at_work(part, model, calls):
        yield


@contextmanager
def loading() -> Iterator[None]:
    """Weights are read in here."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    with meter.loading():
        yield


def count(
    *, calls: int = 0, cached: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0, remembered: bool = False
) -> None:
    """Count for the model that is at work; `remembered` are prompts that it never reads again."""
    meter = _METER.get()
    if meter is not None and (spent := meter.current) is not None:
        spent.calls += calls
        spent.cached += cached
        spent.prompt_tokens += prompt_tokens
        spent.completion_tokens += completion_tokens
        spent.remembered_tokens += prompt_tokens if remembered else 0


def count_usage(before: Usage, after: Usage, *, priced: bool) -> None:
    """Count what a server says it was asked between two readings."""
    meter = _METER.get()
    if meter is None or (spent := meter.current) is None:
        return
    spent.requests += after.requests - before.requests
    spent.retries += after.retries - before.retries
    spent.prompt_tokens += after.prompt_tokens - before.prompt_tokens
    spent.completion_tokens += after.completion_tokens - before.completion_tokens
    if after.requests > before.requests:
        spent.cost = spent.cost + after.cost - before.cost if priced and spent.cost is not None else None


def share(done: float) -> None:
    """Say which share of the work at hand is done, from 0 to 1."""
    meter = _METER.get()
    if meter is not None:
        meter.share(done)


def steps(total: int) -> Iterator[int]:
    """The steps of something long, which progress is told of."""
    meter = _METER.get()
    return iter(range(total)) if meter is None else meter.steps(total)


@contextmanager
def telling(tell: Callable[[float], None]) -> Iterator[None]:
    """`tell` hears which share of the work in here is done."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    with meter.telling(tell):
        yield


@contextmanager
def portion(start: float, size: float) -> Iterator[None]:
    """What is done in here is this much of the work at hand, after what begins at `start`."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    with meter.portion(start, size):
        yield


class NotSentError(PalateError):
    """A rehearsal sends nothing to a server."""


def rehearsing() -> Meter | None:
    """The meter of a rehearsal, in which nothing is sent and no answer is kept; None where work is real."""
    meter = _METER.get()
    return meter if meter is not None and meter.rehearsal else None
