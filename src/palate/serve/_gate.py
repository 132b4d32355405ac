"""What every request passes before anything is made of it: token, room in the queue, size, UTF-8."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from palate.serve._models import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECONDS_FOR_BODY = 60.0
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

    def __init__(self, app: App, *, metrics: Metrics, token: str | None, queue: int, max_bytes: int) -> None:
        self._app = app
        self._metrics = metrics
        self._token = token.encode() if token else None
        self._queue = queue
        self._max_bytes = max_bytes
        self._held = 0
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
            self._admit(scope)
            if scope["method"] in ("GET", "HEAD"):
                await self._app(scope, receive, answer)
            else:
                await self._hold(scope, receive, answer)
        except RefusedRequest as refused:
            await answer.refuse(refused)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(answer.method(scope), route, str(answer.status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)

    def _admit(self, scope: Scope) -> None:
        if self._token and not _may_enter(_header(scope, b"authorization"), self._token):
            raise RefusedRequest(401, "a bearer token is needed, and this is not it", www_authenticate="Bearer")
        if self.draining:
            raise RefusedRequest(503, "the server is shutting down", retry_after=RETRY_AFTER, connection="close")

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._held >= self._queue:
            raise RefusedRequest(503, f"{self._held} requests are waiting already", retry_after=RETRY_AFTER)
        self._held += 1
        self._metrics.held.set(self._held)
        try:
            body = await self._body(scope, receive)
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._held -= 1
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


def _may_enter(authorization: str, token: bytes) -> bool:
    """A bearer token, or the token as the password of an address: some trainers take an address only."""
    kind, _, given = authorization.partition(" ")
    secret = given.strip().encode("latin-1")
    if kind.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(secret, token)


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
