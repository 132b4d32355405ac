"""What the server counts, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one server. No text and no user is among them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "palate_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram("palate_request_seconds", "Time to answer", ["route"], registry=self.registry)
        self.held = Gauge("palate_held_requests", "Requests taken and not yet answered", registry=self.registry)
        self.batch_requests = Histogram(
            "palate_batch_requests", "Requests rated together", ["model"], buckets=SIZES, registry=self.registry
        )
        self.batch_responses = Histogram(
            "palate_batch_responses", "Responses rated together", ["model"], buckets=SIZES, registry=self.registry
        )
        self.unscored = Counter("palate_unscored", "Asks without scores", ["model"], registry=self.registry)
        self.failures = Counter("palate_failures", "Requests the model failed on", ["model"], registry=self.registry)

    def on_batch(self, model: str, requests: int, responses: int) -> None:
        """A batch begins."""
        self.batch_requests.labels(model).observe(requests)
        self.batch_responses.labels(model).observe(responses)

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self.registry)
