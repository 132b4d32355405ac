"""What a server's answer means: use it, ask again, take no for an answer, or stop everything."""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx
import msgspec

from palate.engine._address import Address
from palate.engine._throttle import retry_after
from palate.records import PalateError

LONGEST_REASON = 400


class RetryError(Exception):
    """No usable answer this time; the next try may bring one."""

    def __init__(
        self, reason: str, *, wait: float | None = None, crowded: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait
        self.crowded = crowded
        self.unreachable = unreachable


class RefusedError(Exception):
    """The server understood and will not: asking the same again is no use."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class LostError(Exception):
    """Every try failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded JSON, or why there is none."""

    value: object = None
    problem: RetryError | RefusedError | None = None


def judge(response: httpx.Response, address: Address, *, proven: bool, optional: bool, not_found: str) -> Verdict:
    """What to do with this response. Raises `PalateError` where no request could ever succeed.

    `proven` says that the server has answered properly before, so that one refusal is about one request;
    `optional`, that we can do without this answer.
    """
    status, text = response.status_code, address.redact(response.text)
    decides = not proven and not optional
    if _is_page(response, text) and status < 500 and decides:
        raise PalateError(f"{response.url} is a web page, not an API: did you forget /v1?")
    if optional and _is_page(response, text):
        return Verdict(problem=RefusedError("a web page where JSON was expected", status))
    if response.is_success:
        return _decoded(text)
    reason = f"HTTP {status}: {message(text)}"
    if status == 401 or (status == 403 and decides):
        raise PalateError(f"{address.host} does not let us in ({reason}). {address.refused_key()}")
    if status == 402 or (status == 429 and "insufficient_quota" in text):
        raise PalateError(f"the account at {address.host} is used up ({reason}); what was answered is kept")
    if status in (301, 302, 303, 307, 308, 404, 405) and decides:
        raise PalateError(f"{response.url} does not answer ({reason}). {not_found}")
    crowded = status in (408, 429, 503, 504, 529)
    if crowded or status in (409, 425, 502) or (status >= 500 and not optional):
        wait = retry_after(response.headers.get("Retry-After")) if crowded else None
        reason += f"; wait {wait:g} s" if wait else ""
        return Verdict(problem=RetryError(reason, wait=wait, crowded=crowded))
    return Verdict(problem=RefusedError(reason, status))


def broken(error: Exception, timeout: float, address: Address) -> RetryError:
    """A request that brought no response at all."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return RetryError(f"cannot connect: {address.redact(str(error)) or type(error).__name__}", unreachable=True)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return RetryError(f"no answer within {timeout:g} s", crowded=True)
    return RetryError(f"the connection broke: {address.redact(str(error)) or type(error).__name__}")


def message(text: str) -> str:
    """The server's own words, out of whatever it wraps them in.

    >>> message('{"error": {"message": "no such model", "param": "model"}}')
    'no such model (model)'
    >>> message('{"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}]}')
    'body.seed: not permitted'
    """
    try:
        found = _words(json.loads(text))
    except (ValueError, RecursionError):
        found = ""
    words = " ".join((found or text).split()) or "no reason given"
    return words if len(words) <= LONGEST_REASON else words[:LONGEST_REASON] + "…"


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    if not isinstance(value, Mapping):
        return ""
    for key in ("error", "message", "detail", "msg"):
        if words := _words(value.get(key)):
            where, parameter = value.get("loc"), value.get("param")
            if isinstance(where, list):
                return f"{'.'.join(map(str, where))}: {words}"
            return f"{words} ({parameter})" if parameter else words
    return ""


def _decoded(text: str) -> Verdict:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Verdict(problem=RetryError(f"not JSON: {message(text)[:80]}"))
    return Verdict(value=value) if isinstance(value, dict) else Verdict(problem=RetryError("JSON without an object"))


def _is_page(response: httpx.Response, text: str) -> bool:
    return "text/html" in response.headers.get("Content-Type", "") or text.lstrip()[:1] == "<"
