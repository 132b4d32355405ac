"""A reward model behind an HTTP server of the user's own, in any language."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from palate.engine import yes
from palate.engine._chat_api import whole
from palate.engine._http_client import Address, LostError, RefusedError, RetryError, Sender, Session
from palate.engine._throttle import RetryPolicy
from palate.records import Ask, PalateError, Rating
from palate.rewards._rate import are_probabilities

LOADING_POLL = 1.0
"""Seconds between looks at a server that is loading its model."""
ROUTE = "X-Palate-Route"
"""The header that tells a router which asks belong together."""
ROUTES = 256


class _Health(msgspec.Struct, frozen=True):
    name: str | None = None
    fingerprint: str | None = None
    order_sensitive: bool = False
    palate: str | None = None
    status: Any = None  # what it means is known of `palate serve` only

    @property
    def loading(self) -> bool:
        return self.palate is not None and self.status == "loading"


class Batch(NamedTuple):
    """The asks of one request."""

    lines: list[dict[str, object]]
    route: int | None = None


class HttpReward:
    """Sends asks to a server and reads its ratings.

    The server takes `POST url` with

        {"asks": [{"id": "...", "prompt": "...", "responses": ["...", "..."],
                   "view": "what is known of the user", "view_name": "posts:5", "user_id": "..."}]}

    and answers, in any order, one line for each ask, with `scores` or with `unscored` and the reason:

        {"ratings": [{"id": "...", "scores": [0.2, 1.4], "probabilities": [0.2, 0.8], "raw": "...", "note": "..."},
                     {"id": "...", "unscored": "why"}]}

    `probabilities`, `raw` and `note` may be left out. `user_id` is null where the view is nobody's. Ratings are
    matched by id: an ask that is missing, rated twice or rated wrongly is *unscored* with the reason.

    `GET url/health` may answer `{"name": "...", "fingerprint": "...", "order_sensitive": false}`. The name shows
    in results; the fingerprint should change with anything that could change a score, and is part of a run's
    identity. A server that is `palate serve` says so with `"palate": "its version"`: it is waited for while it
    loads its model, and is sent the view in its parts, and with each request the fingerprint, so that another
    model under the same address is found out.

    429, 503, other errors of the server, time-outs and broken answers are tried again; a refused batch is split
    until only the asks that the server will not take are left. A bearer token is sent if `token_variable` is set.

    With `by_user`, a request holds only users of one of 256 groups and names the group in a header, by which a router
    can send a user to the same replica each time. Many users share a group, so it names nobody.
    """

    order_sensitive = False
    knows_users = True  # the server may, and says so if not

    def __init__(
        self,
        url: str,
        *,
        token_variable: str = "PALATE_REWARD_TOKEN",
        timeout: float | str = 60,
        batch_size: int | str = 64,
        concurrency: int | str = 8,
        by_user: bool | str = False,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        try:
            self._asks_a_request = int(batch_size)
            self._sender = Sender(
                Address(url, token_variable),
                concurrency=int(concurrency),
                timeout=float(timeout),
                retry_policy=retry_policy,
                not_found="Is this the address that the reward server takes asks at?",
            )
        except ValueError as error:
            raise PalateError(f"timeout, batch_size and concurrency are numbers: {error}") from error
        if self._asks_a_request < 1:
            raise PalateError("batch_size is a number from 1")
        self._by_user = by_user if isinstance(by_user, bool) else yes(by_user)
        self.batch_size = self._asks_a_request * self._sender.concurrency
        """How many asks one call of `rate` can make good use of."""
        [health] = self._sender.run([None], lambda session, _: self._loaded(session))
        self.name = whole(health.name or f"http:{url.partition('://')[2].rstrip('/')}")
        self.order_sensitive = health.order_sensitive
        self._health = health

    def __repr__(self) -> str:
        return f"HttpReward({self._sender.address.url!r})"

    @property
    def fingerprint(self) -> str:
        """The address, with what the server says of itself."""
        known = [self._sender.address.url, self._health.name, self._health.fingerprint]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        """One rating for each ask, in the same order."""
        wire = _wire_whole if self._health.palate else _wire
        lines = [wire(ask, ask.id) for ask in asks]
        if len({line["id"] for line in lines}) < len(lines):
            lines = [wire(ask, f"{index}: {ask.id}") for index, ask in enumerate(asks)]
        groups: dict[int | None, list[dict[str, object]]] = {}
        for ask, line in zip(asks, lines, strict=True):
            groups.setdefault(route(ask) if self._by_user else None, []).append(line)
        size = self._asks_a_request
        batches = [
            Batch(group[start : start + size], number)
            for number, group in groups.items()
            for start in range(0, len(group), size)
        ]
        rated: dict[str, Rating] = {}
        for answer in self._sender.run(batches, self._rate):
            rated |= answer
        return [rated[str(line["id"])] for line in lines]

    async def _rate(self, session: Session, batch: Batch) -> dict[str, Rating]:
        wanted = f"?model={self._health.fingerprint}" if self._health.palate else ""
        url = f"{self._sender.address.url}{wanted}"
        try:
            headers = {} if batch.route is None else {ROUTE: str(batch.route)}
            return await session.post(
                url, {"asks": batch.lines}, lambda reply: _read(reply, batch.lines), headers=headers
            )
        except (RefusedError, LostError) as problem:
            if isinstance(problem, RefusedError) and problem.status == 412:
                raise PalateError(f"{self._sender.address.url} is another model than before: {problem}") from None
            if isinstance(problem, LostError) and self._health.palate and await self._started_again(session):
                return await self._rate(session, batch)
            if len(batch.lines) == 1:
                return {str(batch.lines[0]["id"]): Rating(unscored=f"the reward server: {problem.reason}")}
        half = len(batch.lines) // 2
        first, second = Batch(batch.lines[:half], batch.route), Batch(batch.lines[half:], batch.route)
        return await self._rate(session, first) | await self._rate(session, second)

    async def _started_again(self, session: Session) -> bool:
        """Whether an answer was lost because the server is loading its model again; that is waited for."""
        try:
            health = await session.get(f"{self._sender.address.url}/health", _read_health)
        except (LostError, RefusedError, msgspec.ValidationError):
            return False
        if health.loading:
            await self._loaded(session)
        return health.loading

    async def _loaded(self, session: Session) -> _Health:
        """What the server says of itself once its model is loaded."""
        url, patience = self._sender.address.url, self._sender.retry_policy.total
        give_up = time.monotonic() + patience
        while (health := await _ask_health(session, url)).loading:
            if time.monotonic() > give_up:
                raise PalateError(f"{url} is still loading its model after {patience:g} s; try again when it is ready")
            await asyncio.sleep(LOADING_POLL)
        return health


def route(ask: Ask) -> int:
    """The group of an ask's user; without a user, that of the profile, and without either, of the prompt.

    >>> ask = Ask(id="1", prompt="What shall I read?", responses=("A poem.",))
    >>> route(ask) == route(msgspec.structs.replace(ask, id="2"))
    True
    """
    known = ask.view.user_id or ask.view.text or ask.prompt
    return int.from_bytes(hashlib.blake2b(whole(known).encode(), digest_size=8).digest(), "big") % ROUTES


async def _ask_health(session: Session, address: str) -> _Health:
    url = f"{address}/health"
    try:
        return await session.get(url, _read_health)
    except msgspec.ValidationError as error:
        raise PalateError(f"{url} answers something else than name and fingerprint: {error}") from error
    except RefusedError:
        return _Health()
    except LostError as problem:
        raise PalateError(f"{url} does not answer: {problem.reason}") from None


def _read_health(reply: object) -> _Health:
    return msgspec.convert(reply, _Health)


def _wire(ask: Ask, id: str) -> dict[str, object]:
    return {
        "id": whole(id),
        "prompt": whole(ask.prompt),
        "responses": [whole(response) for response in ask.responses],
        "view": whole(ask.view.text),
        "view_name": ask.view.name,
        "user_id": ask.view.user_id,
        **({"by_name": True} if ask.view.by_name else {}),
    }


def _wire_whole(ask: Ask, id: str) -> dict[str, object]:
    """With all that palate knows of an ask: the parts of the view, and where the person saw the responses."""
    line = _wire(ask, id) | {"parts": msgspec.to_builtins(ask.view.parts), "shown": ask.shown}
    del line["view"]
    lines: dict[str, object] = json.loads(whole(json.dumps(line, ensure_ascii=False)))
    return lines


def _read(reply: object, batch: list[dict[str, object]]) -> dict[str, Rating]:
    lines = reply.get("ratings") if isinstance(reply, Mapping) else None
    if not isinstance(lines, list):
        raise RetryError("an answer without ratings")
    found: dict[str, list[object]] = {}
    for line in lines:
        if isinstance(line, Mapping) and isinstance(line.get("id"), str):
            found.setdefault(line["id"], []).append(line)
    return {str(ask["id"]): _rating(ask, found.get(str(ask["id"]), [])) for ask in batch}


def _rating(ask: dict[str, object], lines: list[object]) -> Rating:
    if len(lines) != 1:
        reason = "gave no rating for this ask" if not lines else f"gave {len(lines)} ratings for this ask"
        return Rating(unscored=f"the reward server {reason}")
    try:
        rating = msgspec.convert(lines[0], Rating)
    except ValueError as error:  # msgspec's own error is one
        return Rating(unscored=f"the reward server's rating cannot be used: {error}")
    responses = ask["responses"]
    assert isinstance(responses, list)
    return _fitting(rating, len(responses))


def _fitting(rating: Rating, responses: int) -> Rating:
    for kind in ("scores", "probabilities"):
        numbers = getattr(rating, kind)
        if numbers is not None and len(numbers) != responses:
            reason = f"the reward server gave {len(numbers)} {kind} for {responses} responses"
            return Rating(unscored=reason, raw=rating.raw)
    numbers = rating.probabilities
    if numbers is not None and all(map(math.isfinite, numbers)) and not are_probabilities(numbers):
        reason = "the reward server's probabilities are below 0 or do not add up to 1"
        return Rating(unscored=reason, raw=rating.raw)
    return rating
