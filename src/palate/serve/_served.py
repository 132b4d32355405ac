"""The reward models of one server, each with its identity and its worker."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from palate.records import Ask, PalateError, RewardModel
from palate.rewards import load_reward_model, rate
from palate.serve._batcher import Batcher
from palate.serve._profiles import Profiles

if TYPE_CHECKING:
    from palate.serve._metrics import Metrics

Report = Callable[[str, int, int], None]


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


def open_models(
    specs: Sequence[str],
    *,
    profiles: Profiles | None,
    metrics: Metrics,
    wait: float,
    most_responses: int,
    progress: Report,
) -> list[Served]:
    """Load every model and have it rate one ask, so that the first request waits for nothing."""
    if not specs:
        raise PalateError("name at least one reward model, for instance --rm embedding")
    served = []
    for number, spec in enumerate(specs, 1):
        progress(f"loading {spec}", number - 1, len(specs))
        model, identity = load_reward_model(spec)
        rate(model, [Ask(id="warm-up", prompt="Hello?", responses=("Hello.",))])
        batcher = Batcher(
            model,
            profiles=profiles,
            wait=wait,
            most_responses=most_responses,
            on_batch=partial(metrics.on_batch, model.name),
        )
        served.append(Served(number, model, _fingerprint(identity, profiles), batcher))
    return served


def _fingerprint(identity: dict[str, str], profiles: Profiles | None) -> str:
    known = identity | ({"profiles": profiles.fingerprint} if profiles else {})
    return hashlib.sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()[:16]
