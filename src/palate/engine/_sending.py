"""Sends JSON to one server, many requests at a time, and tries again where that is sensible."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TypeVar

import httpx

from palate.engine._address import Address
from palate.engine._spending import Bound, Purse, Usage
from palate.engine._statuses import LostError, RefusedError, RetryError, Verdict, broken, judge
from palate.engine._throttle import Pace, Patience, Throttle
from palate.records import PalateError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Read = Callable[[object], Answer]
"""Makes an answer of decoded JSON, or raises `RetryError` or `RefusedError`."""

FIRST_LIMIT = 8
"""Requests in flight before anything is known of a server."""
LOST_IN_A_ROW = 20
"""So many requests lost with no answer between them: the server is gone, and waiting is no use."""


class Sender:
    """One server, with what was learned of it. Holds no key and no connection, so it can be copied."""

    def __init__(
        self,
        address: Address,
        *,
        concurrency: int,
        timeout: float,
        patience: Patience | None = None,
        purse: Purse | None = None,
        not_found: str = "Is the address right?",
    ) -> None:
        if concurrency < 1 or timeout <= 0:
            raise PalateError("concurrency is a number from 1, and timeout a number of seconds above 0")
        self.address = address
        self.concurrency = concurrency
        self.timeout = timeout
        self.patience = patience or Patience()
        self.purse = purse or Purse(Usage())
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
        return run_anywhere(self._run(items, work, on_answer)) if items else []

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

    async def post(self, url: str, body: object, read: Read[Answer], bound: Bound | None = None) -> Answer:
        """Send JSON; raises `RefusedError` or `LostError`."""
        request = self._client.build_request("POST", url, content=json.dumps(body).encode())
        return await self._ask(request, read, bound or Bound())

    async def get(self, url: str, read: Read[Answer]) -> Answer:
        """Ask for JSON that we can do without; raises `RefusedError` or `LostError`."""
        return await self._ask(self._client.build_request("GET", url), read, Bound())

    async def _ask(self, request: httpx.Request, read: Read[Answer], bound: Bound) -> Answer:
        patience = self._sender.patience
        give_up = math.inf
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._once(request, read, bound)
            except RetryError as problem:
                wait = max(patience.wait(attempt), problem.wait or 0.0)
                give_up = min(give_up, time.monotonic() + patience.total)  # waiting for a turn is not counted
                if attempt >= self._tries(problem) or time.monotonic() + wait > give_up:
                    raise self._lost(problem, attempt, request.url) from None
                self._sender.purse.usage.retries += 1
                await asyncio.sleep(wait)
            except RefusedError:
                self._sender.lost_in_a_row = 0
                raise
            else:
                self._sender.lost_in_a_row = 0
                return answer

    async def _once(self, request: httpx.Request, read: Read[Answer], bound: Bound) -> Answer:
        purse = self._sender.purse
        async with self._throttle.slot() as sent:
            while not purse.reserve(bound):
                await asyncio.sleep(0.01)
            try:
                verdict = await self._exchange(request)
                if verdict.value is not None:
                    said = verdict.value.get("usage") if isinstance(verdict.value, dict) else None
                    purse.pay(bound, said)
            finally:
                purse.release(bound)
            if verdict.problem is None:
                self._throttle.answered()
                self._sender.proven |= not _is_optional(request)
                return read(verdict.value)
            if isinstance(verdict.problem, RetryError) and verdict.problem.crowded:
                wait = verdict.problem.wait or 0.0
                self._throttle.crowded(sent, wait if wait <= self._sender.patience.total else 0.0)
            raise verdict.problem

    async def _exchange(self, request: httpx.Request) -> Verdict:
        sender = self._sender
        sender.purse.usage.requests += 1
        try:
            async with asyncio.timeout(sender.timeout):
                response = await self._client.send(request)
        except (httpx.HTTPError, TimeoutError) as error:
            return Verdict(problem=broken(error, sender.timeout, sender.address))
        return judge(
            response,
            sender.address,
            proven=sender.proven,
            optional=_is_optional(request),
            not_found=sender.not_found,
        )

    def _tries(self, problem: RetryError) -> int:
        """A server that was never reached is probably not running."""
        tries = self._sender.patience.tries
        return min(tries, 4) if problem.unreachable and not self._sender.proven else tries

    def _lost(self, problem: RetryError, attempts: int, url: httpx.URL) -> Exception:
        sender = self._sender
        sender.lost_in_a_row += 1
        if problem.unreachable and not sender.proven:
            return PalateError(f"no server answers at {url} ({problem.reason}). Is it running?")
        if sender.lost_in_a_row >= LOST_IN_A_ROW:
            return PalateError(
                f"{url} gave no usable answer to {LOST_IN_A_ROW} requests in a row ({problem.reason}). "
                f"What was answered before is kept; run the same again when it is well."
            )
        return LostError(f"{problem.reason} (given up after {attempts} {'try' if attempts == 1 else 'tries'})")


def _is_optional(request: httpx.Request) -> bool:
    return request.method == "GET"


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
