"""The reward models of one server, each with its identity and its worker, and what the server counts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from palate.records import Ask, PalateError, RewardModel
from palate.rewards import load_reward_model, rate
from palate.serve._batcher import Batcher
from palate.serve._profiles import Profiles

Report = Callable[[str, int, int], None]
Status = Literal["loading", "ready", "failed"]
LONGEST_WAIT = 30
"""Longest Retry-After in seconds while models are loaded."""


class Served(msgspec.Struct, frozen=True):
    """A reward model that is ready to be asked."""

    number: int
    model: RewardModel
    fingerprint: str
    """Changes with all that could change a score: the model, its options, and the views that the server builds."""
    batcher: Batcher

    @property
    def order_sensitive(self) -> bool:
        """Whether the order of the responses matters to the model."""
        return bool(getattr(self.model, "order_sensitive", False))


class Models:
    """All models of one server, which listens before they are loaded and says meanwhile how far they are."""

    def __init__(self, specs: Sequence[str]) -> None:
        if not specs:
            raise PalateError("name at least one reward model, for instance --rm embedding")
        self.specs = tuple(specs)
        self.served: list[Served] = []
        self.status: Status = "loading"
        self._began = time.monotonic()

    def load(
        self,
        *,
        profiles: Callable[[], Profiles] | None,
        metrics: Metrics,
        wait: float,
        max_responses: int,
        progress: Report,
    ) -> None:
        """Load every model and have it rate one ask, so that the first request waits for nothing."""
        try:
            if profiles:
                progress("reading the benchmark", 0, len(self.specs))
            known = profiles() if profiles else None
            for number, spec in enumerate(self.specs, 1):
                progress(f"loading {spec}", number - 1, len(self.specs))
                model, identity = load_reward_model(spec)
                rate(model, [Ask(id="warm-up", prompt="Hello?", responses=("Hello.",))])
                batcher = Batcher(
                    model,
                    profiles=known,
                    wait=wait,
                    max_responses=max_responses,
                    on_batch=partial(metrics.on_batch, model.name),
                    on_read=metrics.profiles_read.labels(model.name).inc,
                )
                self.served.append(Served(number, model, _fingerprint(identity, known), batcher))
        except BaseException:
            self.status = "failed"
            raise
        self.status = "ready"

    def close(self) -> None:
        """Rate what was submitted, then stop."""
        for one in self.served:
            one.batcher.close()

    @property
    def why_not(self) -> str:
        """What to tell those who ask too early."""
        if self.status == "failed":
            return "the models could not be loaded; the server is ending"
        loaded, seconds = len(self.served), time.monotonic() - self._began
        return f"the server is loading its models: {loaded} of {len(self.specs)} loaded after {seconds:.0f} s"

    @property
    def retry_after(self) -> int:
        """Seconds: as long again as it has taken so far."""
        return max(1, min(LONGEST_WAIT, round(time.monotonic() - self._began)))


def _fingerprint(identity: dict[str, str], profiles: Profiles | None) -> str:
    known = identity | ({"profiles": profiles.fingerprint} if profiles else {})
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()[:16]


SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one server. No text and no user is among them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        sizes = partial(histogram, labelnames=["model"], buckets=SIZES)
        self.requests = counter("palate_requests", "Requests answered", ["method", "route", "status"])
        self.seconds = histogram("palate_request_seconds", "Time to answer", ["route"])
        self.held = Gauge("palate_held_requests", "Requests taken and not yet answered", registry=self.registry)
        self.batch_requests = sizes("palate_batch_requests", "Requests rated together")
        self.batch_responses = sizes("palate_batch_responses", "Responses rated together")
        self.profiles_read = counter(
            "palate_profiles_read", "Times a profile was read; fewer than responses", ["model"]
        )
        self.unscored = counter("palate_unscored", "Asks without scores", ["model"])
        self.failures = counter("palate_failures", "Requests the model failed on", ["model"])

    def on_batch(self, model: str, requests: int, responses: int) -> None:
        """A batch begins."""
        self.batch_requests.labels(model).observe(requests)
        self.batch_responses.labels(model).observe(responses)

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self.registry)
