"""The reward models of a run: made from their names, each with a label of its own and what identifies it."""

from __future__ import annotations

import hashlib
import inspect
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from palate.engine import keep_language_models, telling
from palate.records import Benchmark, Comparison, Completion, PalateError, RewardModel, without_folders
from palate.rewards import load_reward_model
from palate.runs._settings import ModelSettings
from palate.views import ViewSpec

BATCH = 256
CAUTION = "caution"
"""Where a model's identity says what a reader has to know of it on these items."""

_kept: dict[str, tuple[RewardModel, dict[str, str]]] | None = None
"""Reward models by their names, where a process keeps them."""

Progress = Callable[[str, float, int], None]
"""Told what is being done, how much of it is done and how much there is in all."""


def no_progress(what: str, done: float, total: int) -> None:
    """For callers who are not shown any."""


class Tell(Protocol):
    """Told what is being done, and how much is done of what is not on the disk yet."""

    def __call__(self, what: str, more: float = 0.0, /) -> None: ...


@contextmanager
def told_within(tell: Tell, what: str | Callable[[], str], lines: int) -> Iterator[None]:
    """What is done in here makes `lines` lines; `tell` hears of it all along."""

    def now() -> str:
        return what if isinstance(what, str) else what()

    tell(now())
    with telling(lambda share: tell(now(), share * lines)):
        yield


class LoadedModel(msgspec.Struct, frozen=True):
    """A reward model with its name in the tables and what identifies it."""

    settings: ModelSettings
    model: RewardModel

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.settings.label

    @property
    def batch_size(self) -> int:
        """How many asks the model wants at once."""
        return max(1, int(getattr(self.model, "batch_size", BATCH)))

    @property
    def status(self) -> str:
        """What the model says of itself for the progress bar, such as tokens and money spent."""
        said = getattr(self.model, "status", None)
        return f" ({said()})" if said and said() else ""


def load_models(reward_models: Sequence[str | RewardModel]) -> list[LoadedModel]:
    """Make every reward model, each with a label of its own."""
    if not reward_models:
        raise PalateError("name at least one reward model, for instance --rm embedding")
    loaded: list[tuple[RewardModel, dict[str, str]]] = []
    for given in reward_models:
        loaded.append(_loaded(given) if isinstance(given, str) else (given, _identity(given)))
    names = [model.name for model, _ in loaded]
    specs = [identity.get("spec", str(index)) for index, (_, identity) in enumerate(loaded)]
    shown = [without_folders(spec) for spec in specs]  # reports are for others, too
    labels = [
        name if names.count(name) == 1 else f"{name} ({short if shown.count(short) == 1 else spec})"
        for name, short, spec in zip(names, shown, specs, strict=True)
    ]
    repeated = {label for label in labels if labels.count(label) > 1}
    if repeated:
        raise PalateError(f"a reward model is named twice: {', '.join(sorted(repeated))}")
    return [
        LoadedModel(ModelSettings(label=label, identity=identity), model)
        for label, (model, identity) in zip(labels, loaded, strict=True)
    ]


def cautioned(
    models: Sequence[LoadedModel],
    views: Sequence[ViewSpec],
    benchmark: Benchmark,
    items: Sequence[Comparison | Completion],
) -> list[LoadedModel]:
    """The models; those that call up users by name, and have something to say of these, with that in their settings."""
    found = []
    for one in models:
        tell = getattr(one.model, "caution", None) if any(spec.shows("user") for spec in views) else None
        if tell and (told := tell(benchmark, items)):
            identity = one.settings.identity | {CAUTION: told}
            one = LoadedModel(msgspec.structs.replace(one.settings, identity=identity), one.model)
        found.append(one)
    return found


def keep_models() -> None:
    """From now on this process loads every model once: for workers, which measure one shard after another."""
    global _kept
    _kept = {} if _kept is None else _kept
    keep_language_models()


def _loaded(spec: str) -> tuple[RewardModel, dict[str, str]]:
    if _kept is None:
        return load_reward_model(spec)
    if spec not in _kept:
        _kept[spec] = load_reward_model(spec)
    return _kept[spec]


def _identity(model: RewardModel) -> dict[str, str]:
    """An object's class tells what it does; only its fingerprint tells what it holds."""
    kind = type(model)
    try:
        source = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        source = "unknown"
    fingerprint = getattr(model, "fingerprint", None) or f"unknown, drawn {secrets.token_hex(8)}"
    return {"class": f"{kind.__module__}.{kind.__qualname__}", "source": source, "fingerprint": str(fingerprint)}
