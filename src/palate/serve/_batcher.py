"""Requests that arrive together are rated together; while a batch runs, the next one gathers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec

from palate.records import Ask, PalateError, Rating, RewardModel
from palate.rewards import rate
from palate.serve._profiles import Profiles, names_user_only

MAX_CHARACTERS = 4_000_000
"""Of the texts in one batch: beyond it nothing is gained, and the first in the batch wait for the last."""
NOBODY = "knows no user by name: send a view along, or name the benchmark that has the users"
LONGEST_WAIT = 10
"""A batch gathers for at most this multiple of the wait for one more request."""
SHARE_WAITED = 0.01
"""Where batches take long, one more request is waited for this share of it: those who were answered ask again."""


@dataclass(frozen=True)
class PendingRequest:
    """The asks of one request, and where their ratings go."""

    asks: Sequence[Ask]
    answer: Future[list[Rating]]

    @property
    def responses(self) -> int:
        """How many texts there are to rate."""
        return sum(len(ask.responses) for ask in self.asks)

    @property
    def characters(self) -> int:
        """How much there is to read."""
        return sum(len(ask.view.text) + len(ask.prompt) + sum(map(len, ask.responses)) for ask in self.asks)


class Batcher:
    """One thread that runs one reward model, however many ask at a time."""

    def __init__(
        self,
        model: RewardModel,
        *,
        profiles: Profiles | None = None,
        wait: float = 0.005,
        max_responses: int = 256,
        on_batch: Callable[[int, int], None] | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self.model = model
        self._profiles = profiles
        self._wait = wait
        self._max_responses = max_responses
        self._on_batch = on_batch or (lambda requests, responses: None)
        self._on_read = on_read or (lambda profiles: None)
        self._waiting: queue.SimpleQueue[PendingRequest | None] = queue.SimpleQueue()
        self._closed = False
        self._last_took = 0.0
        self._thread = threading.Thread(target=self._work, name=f"palate-{model.name}", daemon=True)
        self._thread.start()

    def submit(self, asks: Sequence[Ask]) -> Future[list[Rating]]:
        """The ratings to come, one for each ask, in the same order. May be called from any thread."""
        if self._closed:
            raise PalateError(f"{self.model.name} takes no more asks: it is shutting down")
        job = PendingRequest(asks, Future())
        self._waiting.put(job)
        return job.answer

    def close(self) -> None:
        """Rate what was submitted, then stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            batch, goes_on = self._gather()
            wanted = [job for job in batch if job.answer.set_running_or_notify_cancel()]
            if wanted:
                self._on_batch(len(wanted), sum(job.responses for job in wanted))
                started = time.monotonic()
                self._answer(wanted)
                self._last_took = max(time.monotonic() - started, self._last_took / 2)

    def _gather(self) -> tuple[list[PendingRequest], bool]:
        """Jobs until none has come for a moment, and whether there will be more after them."""
        batch: list[PendingRequest] = []
        responses = characters = 0
        wait = max(self._wait, SHARE_WAITED * self._last_took)
        give_up = float("inf")
        while responses < self._max_responses and characters < MAX_CHARACTERS:
            try:
                job = self._waiting.get(timeout=max(0.0, min(wait, give_up - time.monotonic())) if batch else None)
            except queue.Empty:
                break
            if job is None:
                return batch, False
            if not batch:
                give_up = time.monotonic() + LONGEST_WAIT * wait
            batch.append(job)
            responses += job.responses
            characters += job.characters
        return batch, True

    def _answer(self, batch: Sequence[PendingRequest]) -> None:
        """Where the model fails on a batch, every request is tried alone: one must not spoil the others."""
        try:
            ratings = iter(self._rate([ask for job in batch for ask in job.asks]))
        except BaseException as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(_told(self.model, error))
                return
            for job in batch:
                self._answer([job])
            return
        for job in batch:
            job.answer.set_result([next(ratings) for _ in job.asks])

    def _rate(self, asks: Sequence[Ask]) -> list[Rating]:
        filled = self._profiles.fill(asks) if self._profiles else self._not_ignored(asks)
        ready = [ask for ask in filled if isinstance(ask, Ask)]
        ratings = iter(rate_together(self.model, ready, self._on_read) if ready else [])
        return [next(ratings) if isinstance(one, Ask) else one for one in filled]

    def _not_ignored(self, asks: Sequence[Ask]) -> list[Ask | Rating]:
        """A model that knows nobody by name must not be paid for as if it had known the user."""
        if getattr(self.model, "knows_users", False):
            return list(asks)
        return [Rating(unscored=f"{self.model.name} {NOBODY}") if names_user_only(ask) else ask for ask in asks]


def _told(model: RewardModel, error: BaseException) -> PalateError:
    """An error that a waiting request can take: not one that would end the process."""
    if isinstance(error, PalateError):
        return error
    return PalateError(f"the reward model {model.name!r} failed: {type(error).__name__}: {error}")


MAX_MERGED_CHARACTERS = 65_536
"""Of the responses in one merged ask: more would not fit one pass of a model on a GPU."""


def rate_together(
    model: RewardModel, asks: Sequence[Ask], on_read: Callable[[int], None] = lambda profiles: None
) -> list[Rating]:
    """What `rate` gives, with asks merged that show the same view and prompt.

    Only for models that say `pointwise = True`: their score for a response depends on view, prompt and that
    response alone. A merged rating counts only where it is plain scores. If it has a note, say that the longest
    response left less room for the view, or no scores at all, each ask is rated alone. `on_read` is told how many
    times a profile is read for it.
    """
    if not getattr(model, "pointwise", False):
        on_read(len(asks))
        return rate(model, asks)
    groups = _groups(asks)
    found: dict[int, Rating] = {}
    merged = rate(model, [_merged([asks[index] for index in group]) for group in groups])
    for group, rating in zip(groups, merged, strict=True):
        found.update(_split(asks, group, rating))
    alone = [index for index in range(len(asks)) if index not in found]
    on_read(len(groups) + len(alone))
    if alone:
        found.update(zip(alone, rate(model, [asks[index] for index in alone]), strict=True))
    return [found[index] for index in range(len(asks))]


def _groups(asks: Sequence[Ask]) -> list[list[int]]:
    groups: list[list[int]] = []
    open_groups: dict[object, tuple[list[int], int]] = {}
    for index, ask in enumerate(asks):
        size = sum(map(len, ask.responses))
        group, held = open_groups.get(_shared(ask, index), ([], 0))
        if not group or held + size > MAX_MERGED_CHARACTERS:
            group, held = [], 0
            groups.append(group)
        group.append(index)
        open_groups[_shared(ask, index)] = group, held + size
    return groups


def _shared(ask: Ask, index: int) -> object:
    """Equal for asks that may be merged; where the order of the responses was recorded, none may."""
    if ask.shown is not None:
        return index
    # All that is in a view: two with the same text may differ in the choices or fields that they hold.
    return msgspec.msgpack.encode(ask.view), ask.prompt


def _merged(asks: Sequence[Ask]) -> Ask:
    if len(asks) == 1:
        return asks[0]
    return msgspec.structs.replace(asks[0], responses=tuple(text for ask in asks for text in ask.responses))


def _split(asks: Sequence[Ask], group: Sequence[int], rating: Rating) -> dict[int, Rating]:
    if len(group) == 1:
        return {group[0]: rating}
    if rating.scores is None or rating != Rating(rating.scores):
        return {}
    scores = iter(rating.scores)
    return {index: Rating([next(scores) for _ in asks[index].responses]) for index in group}
