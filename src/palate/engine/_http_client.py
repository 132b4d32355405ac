"""Sends JSON to one server, many requests at a time, and tries again where that is sensible."""

from __future__ import annotations

import asyncio
import base64
import copy
import ipaddress
import json
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from palate.engine._costs import Bound, CostTracker, Usage
from palate.engine._meter import NotSentError, count_usage, current_meter, rehearsing
from palate.engine._throttle import Pace, RetryPolicy, Throttle, retry_after
from palate.records import PalateError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Read = Callable[[object], Answer]
"""Makes an answer of decoded JSON, or raises `RetryError` or `RefusedError`."""

FIRST_LIMIT = 8
"""Requests in flight before anything is known of a server."""
LARGEST_ANSWER = 64 * 2**20
"""Bytes of one answer: a server must not be able to fill the memory."""
LOST_IN_A_ROW = 20
"""After this many requests lost in a row the server is gone, and waiting is no use."""


class Sender:
    """One server, with what was learned of it. Holds no key and no connection, so it can be copied."""

    def __init__(
        self,
        address: Address,
        *,
        concurrency: int,
        timeout: float,
        retry_policy: RetryPolicy | None = None,
        costs: CostTracker | None = None,
        not_found: str = "Is the address right?",
    ) -> None:
        if concurrency < 1 or timeout <= 0:
            raise PalateError("concurrency is a number from 1, and timeout a number of seconds above 0")
        self.address = address
        self.concurrency = concurrency
        self.timeout = timeout
        self.retry_policy = retry_policy or RetryPolicy()
        self.costs = costs or CostTracker(Usage())
        self.not_found = not_found
        self.pace = Pace(float(min(concurrency, FIRST_LIMIT)))
        self.proven = False
        """Whether the server has ever answered as it should."""
        self.lost_in_a_row = 0

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Session, Item], Awaitable[Answer]],
        on_answer: Callable[[int, Answer], None] | None = None,
    ) -> list[Answer]:
        """Do the work for every item; answers come in the order of the items.

        `on_answer` is told the index and the answer of each item as soon as it is there, from the
        thread in which the requests run. Works inside a running event loop too, as in a notebook.
        """
        if not items:
            return []
        meter = current_meter()
        if rehearsing() and meter is not None and meter.current is not None:
            raise NotSentError(f"a rehearsal sends nothing to {self.address.host}")
        before = copy.copy(self.costs.usage)
        try:
            return run_anywhere(self._run(items, work, on_answer))
        finally:
            count_usage(before, self.costs.usage, priced=self.costs.priced)

    async def _run(
        self,
        items: Sequence[Item],
        work: Callable[[Session, Item], Awaitable[Answer]],
        on_answer: Callable[[int, Answer], None] | None,
    ) -> list[Answer]:
        answers: dict[int, Answer] = {}
        waiting = iter(enumerate(items))

        async def worker(session: Session, queue: Iterator[tuple[int, Item]]) -> None:
            for index, item in queue:
                answers[index] = await work(session, item)
                if on_answer is not None:
                    on_answer(index, answers[index])

        async with self._session() as session:
            if not self.proven:  # a wrong key or address is found out by one request, not by thirty
                await worker(session, iter([next(waiting)]))
            await _together(worker(session, waiting) for _ in range(min(self.concurrency, len(items))))
        return [answers[index] for index in range(len(items))]

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        remote = not self.address.is_loopback
        async with httpx.AsyncClient(
            headers=self.address.headers(),
            timeout=self.timeout,
            limits=httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency),
            trust_env=remote,  # a proxy is not for this machine's own servers
            verify=_certificates(),
        ) as client:
            yield Session(self, client)


class Session:
    """A sender with its connections open."""

    def __init__(self, sender: Sender, client: httpx.AsyncClient) -> None:
        self._sender = sender
        self._client = client
        self._throttle = Throttle(sender.pace, sender.concurrency)

    async def post(
        self,
        url: str,
        body: object,
        read: Read[Answer],
        bound: Bound | None = None,
        *,
        optional: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send JSON; raises `RefusedError` or `LostError`. An `optional` answer is one that we can do without."""
        extensions = {"optional": optional}
        content = json.dumps(body).encode()
        request = self._client.build_request("POST", url, content=content, headers=headers, extensions=extensions)
        return await self._ask(request, read, bound or Bound())

    async def get(self, url: str, read: Read[Answer]) -> Answer:
        """Ask for JSON that we can do without; raises `RefusedError` or `LostError`."""
        return await self._ask(self._client.build_request("GET", url), read, Bound())

    async def _ask(self, request: httpx.Request, read: Read[Answer], bound: Bound) -> Answer:
        policy = self._sender.retry_policy
        give_up = math.inf
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._once(request, read, bound)
            except RetryError as problem:
                wait = max(policy.wait(attempt), problem.wait or 0.0)
                give_up = min(give_up, time.monotonic() + policy.total)  # waiting for a turn is not counted
                if attempt >= self._tries(problem) or time.monotonic() + wait > give_up:
                    raise self._lost(problem, attempt, request.url) from None
                self._sender.costs.usage.retries += 1
                await asyncio.sleep(wait)
            except RefusedError:
                self._sender.lost_in_a_row = 0
                raise
            else:
                self._sender.lost_in_a_row = 0
                return answer

    async def _once(self, request: httpx.Request, read: Read[Answer], bound: Bound) -> Answer:
        costs = self._sender.costs
        async with self._throttle.slot() as sent:
            while not costs.reserve(bound):
                await asyncio.sleep(0.01)
            try:
                outcome = await self._exchange(request)
                if outcome.value is not None:
                    costs.pay(bound, outcome.value.get("usage"))
            finally:
                costs.release(bound)
            if outcome.problem is None:
                self._throttle.answered()
                self._sender.proven |= not _is_optional(request)
                return read(outcome.value)
            if isinstance(outcome.problem, RetryError) and outcome.problem.crowded:
                wait = outcome.problem.wait or 0.0
                self._throttle.crowded(sent, wait if wait <= self._sender.retry_policy.total else 0.0)
            raise outcome.problem

    async def _exchange(self, request: httpx.Request) -> Outcome:
        sender = self._sender
        sender.costs.usage.requests += 1
        try:
            async with asyncio.timeout(sender.timeout):
                response = await self._client.send(request, stream=True)
                try:
                    body = await _read_body(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, TimeoutError) as error:
            return Outcome(problem=broken(error, sender.timeout, sender.address))
        if body is None:
            return Outcome(problem=RefusedError(f"an answer of more than {LARGEST_ANSWER // 2**20} MiB"))
        return classify(
            response,
            body.decode("utf-8", "replace"),
            sender.address,
            proven=sender.proven,
            optional=_is_optional(request),
            not_found=sender.not_found,
        )

    def _tries(self, problem: RetryError) -> int:
        """A server that was never reached is probably not running."""
        tries = self._sender.retry_policy.tries
        return min(tries, 4) if problem.unreachable and not self._sender.proven else tries

    def _lost(self, problem: RetryError, attempts: int, url: httpx.URL) -> Exception:
        sender = self._sender
        sender.lost_in_a_row += 1
        if problem.unreachable and not sender.proven:
            return PalateError(f"no server answers at {url} ({problem.reason}). Is it running?")
        if sender.lost_in_a_row >= LOST_IN_A_ROW:
            return PalateError(
                f"{url} gave no usable answer to {LOST_IN_A_ROW} requests in a row ({problem.reason}). "
                f"What was answered before is kept; run the same command again when it is back."
            )
        return LostError(f"{problem.reason} (given up after {attempts} {'try' if attempts == 1 else 'tries'})")


async def _read_body(response: httpx.Response) -> bytes | None:
    """The body as it was sent, which is not compressed: that is not asked for. None where it is too large."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > LARGEST_ANSWER:
            return None
    return bytes(body)


def _is_optional(request: httpx.Request) -> bool:
    return bool(request.extensions.get("optional", request.method == "GET"))


async def _together(coroutines: Iterator[Coroutine[None, None, None]]) -> None:
    """Run all of them; the first error stops the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def run_anywhere(coroutine: Coroutine[None, None, Answer]) -> Answer:
    """Run to the end, in a thread of its own where this one has an event loop running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_in_thread(coroutine)


def _run_in_thread(coroutine: Coroutine[None, None, Answer]) -> Answer:
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    with ThreadPoolExecutor(1, "palate-requests") as thread:
        try:
            return thread.submit(loop.run_until_complete, task).result()
        except BaseException:  # an interrupt here must stop the requests there
            if not task.done():
                loop.call_soon_threadsafe(task.cancel)
            raise
        finally:
            thread.submit(loop.run_until_complete, loop.shutdown_asyncgens()).result()
            loop.close()


@lru_cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than a request to a server near by."""
    return httpx.create_ssl_context()


LONGEST_REASON = 400


class ServerError(Exception):
    """No usable answer, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RetryError(ServerError):
    """No usable answer this time; the next try may bring one."""

    def __init__(
        self, reason: str, *, wait: float | None = None, crowded: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait = wait
        self.crowded = crowded
        self.unreachable = unreachable


class RefusedError(ServerError):
    """The server understood and will not: asking the same again is no use."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class LostError(ServerError):
    """Every try failed."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded JSON, or why it is missing."""

    value: dict[str, object] | None = None
    problem: RetryError | RefusedError | None = None


def classify(
    response: httpx.Response, text: str, address: Address, *, proven: bool, optional: bool, not_found: str
) -> Outcome:
    """What to do with this response. Raises `PalateError` where no request could ever succeed.

    `proven` says that the server has answered properly before, so that one refusal is about one request;
    `optional`, that we can do without this answer.
    """
    status, text = response.status_code, address.redact(text)
    decides = not proven and not optional
    if _is_page(response, text) and status < 500 and decides:
        raise PalateError(f"{response.url} is a web page, not an API: did you forget /v1?")
    if optional and _is_page(response, text):
        return Outcome(problem=RefusedError("a web page where JSON was expected", status))
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
        return Outcome(problem=RetryError(reason, wait=wait, crowded=crowded))
    return Outcome(problem=RefusedError(reason, status))


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


def _decoded(text: str) -> Outcome:
    try:
        value = json.loads(text, parse_int=_number)
    except (ValueError, RecursionError):
        return Outcome(problem=RetryError(f"not JSON: {message(text)[:80]}"))
    return Outcome(value=value) if isinstance(value, dict) else Outcome(problem=RetryError("JSON without an object"))


def _number(digits: str) -> int | float:
    """Whole numbers that no float can hold would be a fault wherever they are reckoned with."""
    return int(digits) if len(digits) < 300 else float(digits)


def _is_page(response: httpx.Response, text: str) -> bool:
    return "text/html" in response.headers.get("Content-Type", "") or text.lstrip()[:1] == "<"


SHORTEST_SECRET = 8
"""What is shorter (`none`, `EMPTY`) is what local servers are given to please a client, and no secret."""


class Address:
    """A server's URL and the environment variable that holds its key.

    >>> Address("http://127.0.0.1:8000/v1/", "OPENAI_API_KEY").url
    'http://127.0.0.1:8000/v1'
    """

    def __init__(self, url: str, key_variable: str, *, needs_key: bool = False) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PalateError(f"{_bare(url)!r} is no address of a server: write http://HOST:PORT/v1 or https://HOST/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise PalateError(
                f"the address {_bare(url)!r} must hold no password and no query; put the key in the environment "
                f"variable {key_variable}"
            )
        self.url = url.strip().rstrip("/")
        self.host = parts.hostname
        self.key_variable = key_variable
        self.needs_key = needs_key and not self.is_loopback

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    def headers(self) -> dict[str, str]:
        """What every request carries, the key included where there is one."""
        key = self._key()
        if not key and self.needs_key:
            raise PalateError(f"{self.host} wants a key: set the environment variable {self.key_variable}")
        if not all("!" <= character <= "~" for character in key):
            raise PalateError(f"the environment variable {self.key_variable} holds what no key has; copy the key again")
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        return headers | {"Authorization": f"Bearer {key}"} if key else headers

    def redact(self, text: str) -> str:
        """The text without the key, should the server have repeated it."""
        key = self._key()
        if len(key) < SHORTEST_SECRET:
            return text
        coded = base64.b64encode(key.encode()).decode()
        for form in (key, json.dumps(key)[1:-1], quote(key, safe=""), coded):
            text = text.replace(form, "[key]")
        return text

    def refused_key(self) -> str:
        """What to do about a server that does not take the key."""
        if self._key():
            return f"The key in {self.key_variable} is wrong, or has no access to this."
        return f"Set the environment variable {self.key_variable} to your key."

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip()


def _bare(url: str) -> str:
    """An address as an error may show it."""
    return url.rpartition("@")[2].partition("?")[0]
