"""What every request passes: the right host, a body of bearable size, and headers that keep pages closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 512 * 1024
BODY_SECONDS = 60.0
MOST_DIGITS = 12
"""Of a length: Python refuses to read very long numbers."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Gate:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)

        async def closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out.setdefault(name, value)
                if not scope["path"].startswith(("/static/", "/widget.js")):
                    out.setdefault("cache-control", "no-store")
            await send(message)

        if _host(headers.get("host", "")) not in self._hosts:
            detail = "This server does not answer under that name. Start it with --url and the address people use."
            return await JSONResponse({"detail": detail}, 421)(scope, receive, closed)
        if "content-length" in headers and "transfer-encoding" in headers:
            detail = "Content-Length and Transfer-Encoding exclude each other."
            return await JSONResponse({"detail": detail}, 400, {"connection": "close"})(scope, receive, closed)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > MOST_DIGITS or int(length) > MAX_BODY:
            return await _too_large()(scope, receive, closed)
        body = b""
        more = True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > MAX_BODY:
                        return await _too_large()(scope, receive, closed)
        except TimeoutError:
            return await JSONResponse({"detail": "The request took too long to arrive."}, 408)(scope, receive, closed)
        sent = False

        async def whole() -> Message:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        return await self._app(scope, whole, closed)


def _too_large() -> JSONResponse:
    return JSONResponse({"detail": f"A request may hold {MAX_BODY // 1024} KiB."}, 413)


def _host(header: str) -> str:
    host = header.rsplit(":", 1)[0] if not header.endswith("]") else header
    return host.strip("[]").lower()
