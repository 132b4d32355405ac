"""Connections that waste the server's time: too slow, too many, in pieces too small. uvicorn has no limit for these."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

KEPT_FREE = 4
"""Of the files that a process may open, one in this many stays free for models and data."""
LEAST_FREE = 128
ACCEPTED_AT_A_TIME = 16
"""asyncio accepts this many before the first of them is looked at, so that they may be too many for a moment."""
BACKLOG = 2048
"""How many the system holds that are not accepted yet."""
FEW_BYTES = 64
MANY_PIECES = 2_048
"""A body in more pieces than this must have this many bytes a piece on average: each piece costs time."""
SECONDS_FOR_ANSWER = 60.0
"""A client that does not take a large answer in this time loses it."""
READ_AT_A_TIME = 16 * 1024
"""Bytes from one connection before the others have their turn."""
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 43\r\n\r\n{"detail":"all connections are being used"}'
)


def affordable_connections(wanted: int) -> int:
    """As many as wanted, or as the process can open and still load its models."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, files - max(files // KEPT_FREE, LEAST_FREE)))


class _PatientReader(h11.Connection):
    """Refuses a body in crumbs."""

    def __init__(self, our_role: Any, max_incomplete_event_size: int) -> None:
        super().__init__(our_role, max_incomplete_event_size)
        self._pieces = self._bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > MANY_PIECES and self._bytes < FEW_BYTES * self._pieces:
                raise h11.RemoteProtocolError("the body comes in pieces too small")
        return event


class GuardedConnection(H11Protocol):
    """One connection, which must send the head of each request in time.

    When all connections are taken, the one that has waited longest without a whole request makes room: slow clients
    cannot keep others out, whether they dawdle over the head of a request or over its body.
    """

    limit = 4096
    head_seconds = 10.0
    waiting: dict[GuardedConnection, None]
    """Of all connections, in order, those whose request is not there yet."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        size = self.config.h11_max_incomplete_event_size or 16 * 1024
        self.conn = _PatientReader(h11.SERVER, size)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room where there is none."""
        super().connection_made(transport)
        transport.max_size = READ_AT_A_TIME  # type: ignore[attr-defined]
        if len(self.connections) > self.limit:
            oldest = next(iter(self.waiting), None)
            if oldest is None:
                self.connections.discard(self)
                transport.write(FULL)
                transport.close()
                return
            oldest._drop()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._unwatch()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request: not a reason to wait longer for its head."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The next request may come on the same connection."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """The client is not taking its answer; it may not do so for ever."""
        super().pause_writing()
        self._unread = self.loop.call_later(SECONDS_FOR_ANSWER, self._drop)

    def resume_writing(self) -> None:
        """The client is taking its answer."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _watch(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            if self._deadline is None:
                self.waiting[self] = None
                self._deadline = self.loop.call_later(self.head_seconds, self._too_late)
        elif self.cycle.more_body:  # how long a body may take is the application's to say
            self.waiting.setdefault(self, None)
            self._stop_clock()
        else:
            self._unwatch()

    def _unwatch(self) -> None:
        self.waiting.pop(self, None)
        self._stop_clock()

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if self._unread is None:  # else the client has longer, to take a large answer
            self._drop()

    def _drop(self) -> None:
        self._unwatch()
        self.connections.discard(self)
        self.transport.abort()


def guarded(limit: int, head_seconds: float) -> type[GuardedConnection]:
    """The connections of one server."""
    return type("Guarded", (GuardedConnection,), {"limit": limit, "head_seconds": head_seconds, "waiting": {}})


class GuardedServer(uvicorn.Server):
    """Accepts a few connections at a time, and has the system hold the others."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen; asyncio has told the system to hold no more than it accepts at a time."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    def run(self, sockets: list[socket] | None = None) -> None:
        """Answer until told to stop, and log seldom what anybody who can connect can cause."""
        with seldom_logged():
            super().run(sockets)


class _Seldom(logging.Filter):
    """Lets each kind of message through once a minute, as one line that says how many there were."""

    seconds = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is time for this one."""
        kind = record.getMessage().partition("\n")[0][:200]
        last, held_back = self._last.get(kind, (float("-inf"), 0))
        if time.monotonic() - last < self.seconds:
            self._last[kind] = last, held_back + 1
            return False
        if len(self._last) > 100:
            self._last.clear()
        self._last[kind] = time.monotonic(), 0
        record.msg, record.args = kind + (f" ({held_back:,} more before)" if held_back else ""), ()
        if isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], OSError):
            record.msg = f"{record.msg}: {record.exc_info[1].strerror}"
            record.exc_info = None
        return True


@contextmanager
def seldom_logged() -> Iterator[None]:
    """What anybody who can connect can cause must not fill the log."""
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    seldom = _Seldom()
    for logger in loggers:
        logger.addFilter(seldom)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(seldom)
