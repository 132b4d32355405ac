"""What every request passes before anything is made of it: host, token, room in the queue, size, UTF-8."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import msgspec

from palate.records import printable
from palate.serve._models import Metrics
from palate.serve._tokens import EVERYBODY, Grant, matching_grant

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECONDS_FOR_BODY = 60.0
BODIES_HELD = 16
"""All bodies that are held at once may be as large as this many of the largest."""
GRANT = "palate.grant"
"""Under which a request carries what its token allows."""
LONGEST_LOGGED = 2_000
DISCARDED = 2**28
"""So much of a body that is too large is read and thrown away: a client that is still sending hears no answer."""
RETRY_AFTER = "1"


class RefusedRequest(Exception):  # noqa: N818 - an answer, not an error
    """An answer that needs no reward model."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = {name.replace("_", "-").lower(): value for name, value in headers.items()}


class Gate:
    """Refuses what must not reach the model, and counts what passes."""

    def __init__(
        self,
        app: App,
        *,
        metrics: Metrics,
        grants: Sequence[Grant],
        queue: int,
        max_bytes: int,
        host: str = "localhost",
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._grants = grants
        self._queue = queue
        self._max_bytes = max_bytes
        self._host = host.lower()
        self._held = self._bytes_held = 0
        self.draining = False
        """Set when the server is told to stop: what was taken is finished, and nothing new is taken."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, from its headers to the last byte of its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        answer = _Response(send, _header(scope, b"x-request-id"))
        try:
            scope[GRANT] = self._admit(scope)
            if scope["method"] in ("GET", "HEAD"):
                await self._app(scope, receive, answer)
            else:
                await self._hold(scope, receive, answer)
        except RefusedRequest as refused:
            await answer.refuse(refused)
        except Exception as error:
            if answer.status:
                raise
            await answer.refuse(RefusedRequest(500, f"the server failed; {log_failure(error)}"))
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(answer.method(scope), route, str(answer.status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)

    def _admit(self, scope: Scope) -> Grant:
        """What this request may do; refused if it may do nothing."""
        names = [name for name, _ in scope["headers"]]
        if b"transfer-encoding" in names and b"content-length" in names:
            raise RefusedRequest(400, "Content-Length and Transfer-Encoding exclude each other", connection="close")
        grant: Grant | None = EVERYBODY
        if self._grants:
            grant = matching_grant(_header(scope, b"authorization"), self._grants)
        elif not _is_local(_header(scope, b"host"), self._host):
            raise RefusedRequest(
                421,
                "without a token this server answers only to localhost, so that no web page can reach it under "
                "another name",
            )
        if grant is None:
            raise RefusedRequest(401, "a bearer token is needed, and this is not it", www_authenticate="Bearer")
        if self.draining:
            raise RefusedRequest(503, "the server is shutting down", retry_after=RETRY_AFTER, connection="close")
        return grant

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._held >= self._queue:
            raise RefusedRequest(503, f"{self._held} requests are waiting already", retry_after=RETRY_AFTER)
        media = _header(scope, b"content-type").partition(";")[0].strip().lower()
        if media != "application/json":  # a web page may send other types to any server, without leave
            raise RefusedRequest(415, "send JSON, with the header Content-Type: application/json")
        self._held += 1
        self._metrics.held.set(self._held)
        size = 0
        try:
            body = await self._body(scope, receive)
            size = len(body)
            self._bytes_held += size
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._held -= 1
            self._bytes_held -= size
            self._metrics.held.set(self._held)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        announced = _header(scope, b"content-length")
        too_large = RefusedRequest(413, f"the body is larger than {self._max_bytes} bytes", connection="close")
        if announced.isdigit() and int(announced) > DISCARDED:
            raise too_large
        try:
            async with asyncio.timeout(SECONDS_FOR_BODY):
                body = await self._read(receive, too_large)
        except TimeoutError:
            raise RefusedRequest(
                408, f"the body did not arrive in {SECONDS_FOR_BODY:g} s", connection="close"
            ) from None
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise RefusedRequest(400, f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
        return body

    async def _read(self, receive: Receive, too_large: RefusedRequest) -> bytes:
        body = bytearray()
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedRequest(400, "the connection was closed before the body was whole")
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size <= self._max_bytes:
                body += chunk
                if self._bytes_held + size > BODIES_HELD * self._max_bytes:
                    raise RefusedRequest(
                        503,
                        "the requests that wait are too large together",
                        retry_after=RETRY_AFTER,
                        connection="close",
                    )
            else:
                body.clear()
            if size > DISCARDED or (size > self._max_bytes and not message.get("more_body")):
                raise too_large
            if not message.get("more_body"):
                return bytes(body)


class _Response:
    """Passes an answer on, remembers its status and puts the request's id on it."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._id:
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", self._id.encode("latin-1"))]
        await self._send(message)

    async def refuse(self, refused: RefusedRequest) -> None:
        body = msgspec.json.encode({"detail": refused.detail})
        headers = {"content-type": "application/json", "content-length": str(len(body))} | refused.headers
        coded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": refused.status, "headers": coded})
        await self({"type": "http.response.body", "body": body})

    @staticmethod
    def method(scope: Scope) -> str:
        """A method that is known; others would be a label of the client's choosing."""
        return scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _is_local(host: str, own: str) -> bool:
    """Whether a Host header names this machine: another name would be a page's, led here by its name server.

    >>> [_is_local(host, "box") for host in ("localhost:8300", "[::1]:8300", "127.0.0.2", "box", "", "evil.example")]
    [True, True, True, True, True, False]
    """
    name = host.lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name.rstrip(".") in ("", "localhost", own):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def log_failure(error: BaseException) -> str:
    """Write down what went wrong, which may quote what is known of a person; the client gets a reference to it."""
    reference = secrets.token_hex(6)
    words = printable(f"{type(error).__name__}: {error}")[:LONGEST_LOGGED]
    log.error("reference %s: %s", reference, words)
    return f"the server's log says why under the reference {reference}"


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
