"""How fast a server may be asked: more while it answers, half as much when it is crowded."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long one request is tried before it is given up."""

    tries: int = 8
    first_wait: float = 0.5
    """Seconds before the second try, where the server does not say how long; doubled each time."""
    longest_wait: float = 30.0
    total: float = 900.0
    """Seconds for all tries of one request together."""

    def wait(self, attempt: int) -> float:
        """Seconds after the failed try of this number, between half and all of the doubled wait."""
        return min(self.longest_wait, self.first_wait * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1)


class Pace(msgspec.Struct):
    """What was learned of a server's strength, kept from one batch of requests to the next."""

    limit: float
    rising: bool = True
    """Until the server first complains, each answer allows one more request in flight."""


class Throttle:
    """The number of requests in flight: additive increase, halved when the server is crowded."""

    def __init__(self, pace: Pace, most: int) -> None:
        self._pace = pace
        self._most = most
        self._in_flight = 0
        self._resume_at = 0.0
        self._halved_at = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a place among those in flight; gives the time at which it was free."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_flight < int(self._pace.limit))
            self._in_flight += 1
        try:
            while (pause := self._resume_at - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            yield time.monotonic()
        finally:
            async with self._changed:
                self._in_flight -= 1
                self._changed.notify(max(1, int(self._pace.limit) - self._in_flight))

    def answered(self) -> None:
        """The server coped: allow a little more."""
        step = 1.0 if self._pace.rising else 1.0 / self._pace.limit
        self._pace.limit = min(float(self._most), self._pace.limit + step)

    def crowded(self, sent: float, wait: float) -> None:
        """The server did not cope: allow half, once for all that were in flight together."""
        now = time.monotonic()
        if sent >= self._halved_at:
            self._pace.limit = max(1.0, self._pace.limit / 2)
            self._pace.rising = False
            self._halved_at = now
        if wait:
            self._resume_at = max(self._resume_at, now + wait)


def retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a `Retry-After` header of either form.

    >>> retry_after("1.5"), retry_after("soon"), retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (1.5, None, 0.0)
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None
